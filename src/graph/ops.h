// The differentiable functions models are made of. Each makes its forward tensors and, when a tape
// is given and wants it, records its vector-Jacobian product. Formulas: design, decision 2.
#pragma once

#include "adapter/adapter.h"
#include "graph/dropout.h"
#include "graph/tape.h"

namespace lumi {

enum class Products : unsigned char {
    ggml,    // MUL_MAT everywhere: inference, and the portable training graph
    panels,  // CPU training: products with frozen weights by panels, those of adapters by oneDNN
};

// What graph functions need: where tensors are made and how.
struct GraphContext {
    ggml_context * ctx = nullptr;
    Tape * tape = nullptr;  // null: no gradients
    Products products = Products::ggml;
    bool flash = false;  // use flash attention (inference only, checked by the caller)
    // Training: GELU composed of elementary operations instead of ggml's table.
    bool differentiable = false;
    // The transposed copy [out, in] of a frozen weight for input gradients; unset with panels.
    std::function<ggml_tensor *(const ggml_tensor * weight)> transposed;
    const LoraDropout * dropout = nullptr;  // training: of the input of the pairs it names
};

// MUL_MAT with F32 accumulation: a [k, m], b [k, n] -> [m, n]. No adjoint of its own.
ggml_tensor * product(GraphContext & g, ggml_tensor * a, ggml_tensor * b);
// W x and W^T dy for a frozen W [in, out], by panels or by MUL_MAT. No adjoints of their own. The
// latter is null when g.products is ggml and g.transposed has no [out, in] copy of the weight.
ggml_tensor * frozen_product(GraphContext & g, ggml_tensor * weight, ggml_tensor * x);
ggml_tensor * frozen_product_transposed(GraphContext & g, ggml_tensor * weight, ggml_tensor * dy);

// y = W x + sum over loras of scale * B (A x).  W [in, out], x [in, T] -> [out, T]. A pair that
// g.dropout names reads x times its factors.
ggml_tensor * linear(GraphContext & g, ggml_tensor * weight, ggml_tensor * x,
                     const std::vector<LoraTensors> & loras);

// y = x / sqrt(mean(x^2) + eps) over the first dimension, times weight when not null.
ggml_tensor * rms_norm(GraphContext & g, ggml_tensor * x, ggml_tensor * weight, float eps);

// NeoX rotary embedding. x [head_dim, n_head, T], pos I32 [T], factors F32 [n_rot/2] or null.
ggml_tensor * rope(GraphContext & g, ggml_tensor * x, ggml_tensor * pos, ggml_tensor * factors,
                   int n_rot, float base, float freq_scale);

// softmax(scale * q k^T + mask) v with grouped heads.
// q [head_dim, n_head, R], k and v [head_dim, n_head_kv, N], mask F32 or F16 [N, R] ->
// [head_dim*n_head, R].
ggml_tensor * attention(GraphContext & g, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                        ggml_tensor * mask, float scale);

// act(gate) * up, elementwise; tanh GELU or SiLU.
ggml_tensor * gated(GraphContext & g, ggml_tensor * gate, ggml_tensor * up, Activation activation);
// The activation alone.
ggml_tensor * activate(GraphContext & g, ggml_tensor * x, Activation activation);

ggml_tensor * add(GraphContext & g, ggml_tensor * a, ggml_tensor * b);         // same shape
ggml_tensor * mul(GraphContext & g, ggml_tensor * a, ggml_tensor * b);         // same shape
ggml_tensor * mul_scalar(GraphContext & g, ggml_tensor * x, ggml_tensor * s);  // s [1], frozen
ggml_tensor * scale(GraphContext & g, ggml_tensor * x, float factor);
ggml_tensor * reshape(GraphContext & g, ggml_tensor * x, std::initializer_list<int64_t> ne);
// Rows (second dimension) of x by index: x [n, T] or [n, m, T] flattened by the caller; rows I32
// [R], unique.
ggml_tensor * select_rows(GraphContext & g, ggml_tensor * x, ggml_tensor * rows);
ggml_tensor * softcap(GraphContext & g, ggml_tensor * x, float cap);  // cap * tanh(x / cap)

}  // namespace lumi
