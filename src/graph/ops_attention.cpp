// Grouped-query attention: flash (inference) or plain, the latter with its adjoint. The query heads
// that share one K/V head are laid side by side as more rows of one product, so that neither the
// forward nor the adjoint needs a broadcast, and the contraction over them is the sum over the
// group.
#include "graph/ops.h"

#include <cassert>

namespace lumi {
namespace {

// What the adjoint of plain attention reuses. R*g: rows of all query heads of one K/V head.
struct PlainAttention {
    ggml_tensor * q_rows;  // [hd, R*g, n_kv]
    ggml_tensor * p;       // [N, R*g, n_kv], the softmax
    int64_t n_head;
    float scale;
};

// [hd, heads, n] <-> [hd, n, heads], contiguous.
ggml_tensor * swap_heads(ggml_context * ctx, ggml_tensor * x) {
    return ggml_cont(ctx, ggml_permute(ctx, x, 0, 2, 1, 3));
}

ggml_tensor * transposed(ggml_context * ctx, ggml_tensor * x) {
    return ggml_cont(ctx, ggml_transpose(ctx, x));
}

void plain_vjp(GraphContext & g, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
               const PlainAttention & kept, ggml_tensor * d_out) {
    Tape & tape = *g.tape;
    ggml_context * ctx = g.ctx;
    const int64_t hd = q->ne[0];
    const int64_t n_rows = q->ne[2];
    const int64_t n_kv = k->ne[1];
    ggml_tensor * d_heads = ggml_reshape_3d(ctx, d_out, hd, kept.n_head, n_rows);
    ggml_tensor * d_o = ggml_reshape_3d(ctx, swap_heads(ctx, d_heads), hd,
                                        n_rows * kept.n_head / n_kv, n_kv);  // [hd, R*g, n_kv]
    if (tape.wants(v)) {
        // contraction over R*g sums over the group: [hd, N, n_kv]
        ggml_tensor * dv = product(g, transposed(ctx, d_o), transposed(ctx, kept.p));
        tape.add_grad(v, swap_heads(ctx, dv));
    }
    if (!tape.wants(q) && !tape.wants(k)) {
        return;
    }
    ggml_tensor * dp = product(g, swap_heads(ctx, v), d_o);  // [N, R*g, n_kv]
    ggml_tensor * mean = ggml_sum_rows(ctx, ggml_mul(ctx, dp, kept.p));
    ggml_tensor * ds = ggml_mul(ctx, kept.p, ggml_sub(ctx, dp, mean));
    ds = ggml_scale(ctx, ds, kept.scale);
    if (tape.wants(q)) {
        ggml_tensor * kt = ggml_cont(ctx, ggml_permute(ctx, k, 1, 2, 0, 3));  // [N, hd, n_kv]
        ggml_tensor * dq = product(g, kt, ds);                                // [hd, R*g, n_kv]
        dq = ggml_reshape_3d(ctx, dq, hd, n_rows, kept.n_head);
        tape.add_grad(q, swap_heads(ctx, dq));
    }
    if (tape.wants(k)) {
        ggml_tensor * dk = product(g, transposed(ctx, kept.q_rows), transposed(ctx, ds));
        tape.add_grad(k, swap_heads(ctx, dk));
    }
}

ggml_tensor * flash_attention(GraphContext & g, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                              ggml_tensor * mask, float scale) {
    ggml_context * ctx = g.ctx;
    ggml_tensor * out = ggml_flash_attn_ext(
        ctx, ggml_permute(ctx, q, 0, 2, 1, 3), ggml_permute(ctx, k, 0, 2, 1, 3),
        ggml_permute(ctx, v, 0, 2, 1, 3), mask, scale, 0.0F, 0.0F);  // [hd, n_head, R]
    ggml_prec_set_acc(out, GGML_PREC_F32);
    return ggml_reshape_2d(ctx, out, q->ne[0] * q->ne[1], q->ne[2]);
}

// Plain attention for inference: products broadcast one K/V head over its query heads, so that
// nothing but V is copied. The same operations in the same order as llama.cpp, to the bit.
ggml_tensor * broadcast_attention(GraphContext & g, ggml_tensor * q, ggml_tensor * k,
                                  ggml_tensor * v, ggml_tensor * mask, float scale) {
    ggml_context * ctx = g.ctx;
    ggml_tensor * scores = product(g, ggml_permute(ctx, k, 0, 2, 1, 3),
                                   ggml_permute(ctx, q, 0, 2, 1, 3));     // [N, R, n_head]
    ggml_tensor * p = ggml_soft_max_ext(ctx, scores, mask, scale, 0.0F);  // [N, R, n_head]
    ggml_tensor * vt = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3));  // [N, hd, n_kv]
    ggml_tensor * o = swap_heads(ctx, product(g, vt, p));                 // [hd, n_head, R]
    return ggml_reshape_2d(ctx, o, q->ne[0] * q->ne[1], q->ne[2]);
}

}  // namespace

ggml_tensor * attention(GraphContext & g, ggml_tensor * q, ggml_tensor * k, ggml_tensor * v,
                        ggml_tensor * mask, float scale) {
    ggml_context * ctx = g.ctx;
    const int64_t hd = q->ne[0];
    const int64_t n_head = q->ne[1];
    const int64_t n_rows = q->ne[2];
    const int64_t n_kv = k->ne[1];
    const int64_t n = k->ne[2];
    assert(n_head % n_kv == 0);
    if (g.tape == nullptr && !g.differentiable) {
        return g.flash ? flash_attention(g, q, k, v, mask, scale)
                       : broadcast_attention(g, q, k, v, mask, scale);
    }

    ggml_tensor * q_rows =
        ggml_reshape_3d(ctx, swap_heads(ctx, q), hd, n_rows * n_head / n_kv, n_kv);
    ggml_tensor * scores = product(g, swap_heads(ctx, k), q_rows);  // [N, R*g, n_kv]
    scores = ggml_reshape_3d(ctx, scores, n, n_rows, n_head);
    ggml_tensor * p = ggml_soft_max_ext(ctx, scores, mask, scale, 0.0F);
    p = ggml_reshape_3d(ctx, p, n, n_rows * n_head / n_kv, n_kv);

    ggml_tensor * vt = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3));  // [N, hd, n_kv]
    ggml_tensor * o = product(g, vt, p);                                  // [hd, R*g, n_kv]
    o = swap_heads(ctx, ggml_reshape_3d(ctx, o, hd, n_rows, n_head));     // [hd, n_head, R]
    ggml_tensor * y = ggml_reshape_2d(ctx, o, hd * n_head, n_rows);
    if (g.tape != nullptr) {
        const PlainAttention kept = {q_rows, p, n_head, scale};
        g.tape->record(y, {q, k, v}, [g, q, k, v, kept](ggml_tensor * d_out) mutable {
            plain_vjp(g, q, k, v, kept, d_out);
        });
    }
    return y;
}

}  // namespace lumi
