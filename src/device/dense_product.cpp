// Each thread computes tokens of its own, or rows or columns of an outer product.
#include "device/dense_product.h"

#include "device/panel_parts.h"

#include <dnnl.h>

namespace lumi {
namespace {

const float * floats(const ggml_tensor * t) {
    return static_cast<const float *>(t->data);
}

int64_t stride(const ggml_tensor * t) {
    return static_cast<int64_t>(t->nb[1] / sizeof(float));
}

// dst [m, T] (+)= a x, or dst [k, T] (+)= a^T y with transposed.
template <bool transposed> void multiply(ggml_tensor * dst, const ggml_tensor * a,
                                         const ggml_tensor * x, float keep, int ith, int nth) {
    use_one_thread_of_onednn();
    const Range tokens = part(x->ne[1], 1, ith, nth);
    if (tokens.size() == 0) {
        return;
    }
    float * to = static_cast<float *>(dst->data) + tokens.begin * stride(dst);
    const bool done = dnnl_sgemm('N', transposed ? 'N' : 'T', tokens.size(), dst->ne[0], x->ne[0],
                                 1.0F, floats(x) + tokens.begin * stride(x), stride(x), floats(a),
                                 stride(a), keep, to, stride(dst)) == dnnl_success;
    if (!done) {
        poison(to, tokens.size(), dst->ne[0], stride(dst));
    }
}

template <bool transposed> void run_new(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    multiply<transposed>(dst, dst->src[0], dst->src[1], 0.0F, ith, nth);
}

template <bool transposed> void run_added(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    multiply<transposed>(dst, dst->src[1], dst->src[2], 1.0F, ith, nth);
}

// dst [n, m] = p q^T: threads share the longer side.
void run_outer(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    use_one_thread_of_onednn();
    constexpr int64_t kUnit = 16;
    const ggml_tensor * p = dst->src[0];
    const ggml_tensor * q = dst->src[1];
    Range columns{0, p->ne[0]};
    Range rows{0, q->ne[0]};
    Range & shared = columns.size() > rows.size() ? columns : rows;
    shared = part(shared.size(), kUnit, ith, nth);
    if (shared.size() == 0) {
        return;
    }
    float * to = static_cast<float *>(dst->data) + rows.begin * stride(dst) + columns.begin;
    const bool done = dnnl_sgemm('T', 'N', rows.size(), columns.size(), p->ne[1], 1.0F,
                                 floats(q) + rows.begin, stride(q), floats(p) + columns.begin,
                                 stride(p), 0.0F, to, stride(dst)) == dnnl_success;
    if (!done) {
        poison(to, rows.size(), columns.size(), stride(dst));
    }
}

ggml_tensor * made(ggml_context * ctx, int64_t ne0, int64_t ne1, ggml_tensor * a, ggml_tensor * b,
                   ggml_custom_op_t run) {
    ggml_tensor * args[] = {a, b};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, ne0, ne1, 1, 1, args, 2, run, GGML_N_TASKS_MAX,
                          nullptr);
}

ggml_tensor * added(ggml_context * ctx, ggml_tensor * sum, ggml_tensor * a, ggml_tensor * x,
                    ggml_custom_op_t run) {
    ggml_tensor * args[] = {a, x};
    return ggml_custom_inplace(ctx, sum, args, 2, run, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace

ggml_tensor * dense_product(ggml_context * ctx, ggml_tensor * a, ggml_tensor * x) {
    return made(ctx, a->ne[1], x->ne[1], a, x, run_new<false>);
}

ggml_tensor * dense_product_transposed(ggml_context * ctx, ggml_tensor * a, ggml_tensor * y) {
    return made(ctx, a->ne[0], y->ne[1], a, y, run_new<true>);
}

ggml_tensor * add_dense_product(ggml_context * ctx, ggml_tensor * sum, ggml_tensor * a,
                                ggml_tensor * x) {
    return added(ctx, sum, a, x, run_added<false>);
}

ggml_tensor * add_dense_product_transposed(ggml_context * ctx, ggml_tensor * sum, ggml_tensor * a,
                                           ggml_tensor * y) {
    return added(ctx, sum, a, y, run_added<true>);
}

ggml_tensor * outer_product(ggml_context * ctx, ggml_tensor * p, ggml_tensor * q) {
    return made(ctx, p->ne[0], q->ne[0], p, q, run_outer);
}

}  // namespace lumi
