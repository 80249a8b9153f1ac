// RMS norm and rotary embedding with their adjoints.
#include "graph/ops.h"

namespace lumi {

ggml_tensor * rms_norm(GraphContext & g, ggml_tensor * x, ggml_tensor * weight, float eps) {
    ggml_tensor * unit = ggml_rms_norm(g.ctx, x, eps);
    ggml_tensor * y = weight != nullptr ? ggml_mul(g.ctx, unit, weight) : unit;
    if (g.tape != nullptr) {
        // unit = x / rho: dX = (dU - unit * mean(dU * unit)) / rho, rho = sqrt(mean(x^2) + eps)
        g.tape->record(y, {x}, [g, x, unit, weight, eps](ggml_tensor * dy) {
            const float inv_n = 1.0F / static_cast<float>(x->ne[0]);
            ggml_tensor * du = weight != nullptr ? ggml_mul(g.ctx, dy, weight) : dy;
            ggml_tensor * squares = ggml_sum_rows(g.ctx, ggml_sqr(g.ctx, x));  // [1, rows]
            ggml_tensor * rho = ggml_sqrt(g.ctx, ggml_scale_bias(g.ctx, squares, inv_n, eps));
            ggml_tensor * along = ggml_sum_rows(g.ctx, ggml_mul(g.ctx, du, unit));  // [1, rows]
            ggml_tensor * radial = ggml_mul(g.ctx, unit, ggml_scale(g.ctx, along, inv_n));
            g.tape->add_grad(x, ggml_div(g.ctx, ggml_sub(g.ctx, du, radial), rho));
        });
    }
    return y;
}

ggml_tensor * rope(GraphContext & g, ggml_tensor * x, ggml_tensor * pos, ggml_tensor * factors,
                   int n_rot, float base, float freq_scale) {
    // No YaRN: extrapolation factor 0 and magnitude 1, so the last two parameters have no effect.
    ggml_tensor * y = ggml_rope_ext(g.ctx, x, pos, factors, n_rot, GGML_ROPE_TYPE_NEOX, 0, base,
                                    freq_scale, 0.0F, 1.0F, 32.0F, 1.0F);
    if (g.tape != nullptr) {
        // A rotation's adjoint is the rotation back.
        g.tape->record(y, {x}, [g, x, pos, factors, n_rot, base, freq_scale](ggml_tensor * dy) {
            g.tape->add_grad(x,
                             ggml_rope_ext_back(g.ctx, dy, pos, factors, n_rot, GGML_ROPE_TYPE_NEOX,
                                                0, base, freq_scale, 0.0F, 1.0F, 32.0F, 1.0F));
        });
    }
    return y;
}

}  // namespace lumi
