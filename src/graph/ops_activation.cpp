// GELU (tanh form), SiLU, their gated products, and the logits' softcap, with their adjoints.
// Inference uses ggml's own kernels (GELU is an F16 table on the CPU); training composes them.
#include "graph/ops.h"

namespace lumi {
namespace {

constexpr float kGeluCubic = 0.044715F;
constexpr float kTwoSqrtTwoOverPi = 1.5957691216057308F;
// Beyond this the sigmoid is 0 or 1 in F32; without the clamp (1 + 3 a x^2) -> inf meets 0: NaN.
constexpr float kGeluSaturation = 10.0F;

// The sigmoid factor s(x) of act(x) = x * s(x).
ggml_tensor * sigmoid_factor(ggml_context * ctx, ggml_tensor * x, Activation activation) {
    if (activation == Activation::silu) {
        return ggml_sigmoid(ctx, x);
    }
    // x * (2k + 2ka x^2)
    ggml_tensor * slope =
        ggml_scale_bias(ctx, ggml_sqr(ctx, x), kTwoSqrtTwoOverPi * kGeluCubic, kTwoSqrtTwoOverPi);
    return ggml_sigmoid(ctx, ggml_mul(ctx, x, slope));
}

// act'(x) = s + x s (1 - s) z'(x), z the sigmoid's argument; x clamped where it is flat.
ggml_tensor * derivative(ggml_context * ctx, ggml_tensor * x, Activation activation) {
    if (activation == Activation::silu) {
        ggml_tensor * s = ggml_sigmoid(ctx, x);
        ggml_tensor * bend = ggml_mul(ctx, s, ggml_scale_bias(ctx, s, -1.0F, 1.0F));
        return ggml_add(ctx, s, ggml_mul(ctx, x, bend));
    }
    // ggml_clamp works in place on its argument: give it a copy.
    ggml_tensor * c = ggml_clamp(ctx, ggml_cont(ctx, x), -kGeluSaturation, kGeluSaturation);
    ggml_tensor * s = sigmoid_factor(ctx, c, activation);
    ggml_tensor * bend = ggml_mul(ctx, s, ggml_scale_bias(ctx, s, -1.0F, 1.0F));
    ggml_tensor * slope = ggml_scale_bias(ctx, ggml_sqr(ctx, c),
                                          3.0F * kTwoSqrtTwoOverPi * kGeluCubic, kTwoSqrtTwoOverPi);
    return ggml_add(ctx, s, ggml_mul(ctx, ggml_mul(ctx, c, slope), bend));
}

ggml_tensor * composed(ggml_context * ctx, ggml_tensor * x, Activation activation) {
    return ggml_mul(ctx, x, sigmoid_factor(ctx, x, activation));
}

}  // namespace

ggml_tensor * activate(GraphContext & g, ggml_tensor * x, Activation activation) {
    if (!g.differentiable) {
        return activation == Activation::silu ? ggml_silu(g.ctx, x) : ggml_gelu(g.ctx, x);
    }
    ggml_tensor * y = composed(g.ctx, x, activation);
    if (g.tape != nullptr) {
        g.tape->record(y, {x}, [g, x, activation](ggml_tensor * dy) {
            g.tape->add_grad(x, ggml_mul(g.ctx, dy, derivative(g.ctx, x, activation)));
        });
    }
    return y;
}

ggml_tensor * gated(GraphContext & g, ggml_tensor * gate, ggml_tensor * up, Activation activation) {
    if (!g.differentiable) {
        return activation == Activation::silu ? ggml_swiglu_split(g.ctx, gate, up)
                                              : ggml_geglu_split(g.ctx, gate, up);
    }
    ggml_tensor * act = composed(g.ctx, gate, activation);
    ggml_tensor * y = ggml_mul(g.ctx, act, up);
    if (g.tape != nullptr) {
        g.tape->record(y, {gate, up}, [g, gate, up, act, activation](ggml_tensor * dy) {
            if (g.tape->wants(up)) {
                g.tape->add_grad(up, ggml_mul(g.ctx, dy, act));
            }
            if (g.tape->wants(gate)) {
                ggml_tensor * slope = derivative(g.ctx, gate, activation);
                g.tape->add_grad(gate, ggml_mul(g.ctx, ggml_mul(g.ctx, dy, up), slope));
            }
        });
    }
    return y;
}

ggml_tensor * softcap(GraphContext & g, ggml_tensor * x, float cap) {
    ggml_tensor * t = ggml_tanh(g.ctx, ggml_scale(g.ctx, x, 1.0F / cap));
    ggml_tensor * y = ggml_scale(g.ctx, t, cap);
    if (g.tape != nullptr) {
        g.tape->record(y, {x}, [g, x, t](ggml_tensor * dy) {
            ggml_tensor * slope = ggml_scale_bias(g.ctx, ggml_sqr(g.ctx, t), -1.0F, 1.0F);
            g.tape->add_grad(x, ggml_mul(g.ctx, dy, slope));
        });
    }
    return y;
}

}  // namespace lumi
