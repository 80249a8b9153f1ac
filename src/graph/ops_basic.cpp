// Sums, products, scaling, reshaping and row selection with their adjoints.
#include "graph/ops.h"

namespace lumi {

ggml_tensor * add(GraphContext & g, ggml_tensor * a, ggml_tensor * b) {
    ggml_tensor * y = ggml_add(g.ctx, a, b);
    if (g.tape != nullptr) {
        g.tape->record(y, {a, b}, [g, a, b](ggml_tensor * dy) {
            g.tape->add_grad(a, dy);
            g.tape->add_grad(b, dy);
        });
    }
    return y;
}

ggml_tensor * mul(GraphContext & g, ggml_tensor * a, ggml_tensor * b) {
    ggml_tensor * y = ggml_mul(g.ctx, a, b);
    if (g.tape != nullptr) {
        g.tape->record(y, {a, b}, [g, a, b](ggml_tensor * dy) {
            if (g.tape->wants(a)) {
                g.tape->add_grad(a, ggml_mul(g.ctx, dy, b));
            }
            if (g.tape->wants(b)) {
                g.tape->add_grad(b, ggml_mul(g.ctx, dy, a));
            }
        });
    }
    return y;
}

ggml_tensor * mul_scalar(GraphContext & g, ggml_tensor * x, ggml_tensor * s) {
    ggml_tensor * y = ggml_mul(g.ctx, x, s);
    if (g.tape != nullptr) {
        g.tape->record(
            y, {x}, [g, x, s](ggml_tensor * dy) { g.tape->add_grad(x, ggml_mul(g.ctx, dy, s)); });
    }
    return y;
}

ggml_tensor * scale(GraphContext & g, ggml_tensor * x, float factor) {
    ggml_tensor * y = ggml_scale(g.ctx, x, factor);
    if (g.tape != nullptr) {
        g.tape->record(y, {x}, [g, x, factor](ggml_tensor * dy) {
            g.tape->add_grad(x, ggml_scale(g.ctx, dy, factor));
        });
    }
    return y;
}

ggml_tensor * reshape(GraphContext & g, ggml_tensor * x, std::initializer_list<int64_t> ne) {
    int64_t n[4] = {1, 1, 1, 1};
    std::copy(ne.begin(), ne.end(), n);
    ggml_tensor * y = ggml_reshape_4d(g.ctx, x, n[0], n[1], n[2], n[3]);
    if (g.tape != nullptr) {
        g.tape->record(
            y, {x}, [g, x](ggml_tensor * dy) { g.tape->add_grad(x, ggml_reshape(g.ctx, dy, x)); });
    }
    return y;
}

ggml_tensor * select_rows(GraphContext & g, ggml_tensor * x, ggml_tensor * rows) {
    ggml_tensor * y = ggml_get_rows(g.ctx, x, rows);  // [n, R]
    if (g.tape != nullptr) {
        g.tape->record(y, {x}, [g, x, rows](ggml_tensor * dy) {
            // SET_ROWS overwrites: right because rows are unique.
            ggml_tensor * zeros = ggml_fill(g.ctx, x, 0.0F);
            g.tape->add_grad(x, ggml_set_rows(g.ctx, zeros, dy, rows));
        });
    }
    return y;
}

}  // namespace lumi
