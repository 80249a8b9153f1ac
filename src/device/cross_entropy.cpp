// Threads share the columns of the logits.
#include "device/cross_entropy.h"

#include "device/amx_kernels.h"
#include "device/logit_rows.h"
#include "device/panel_parts.h"

#include "device/logit_rows.inc"

#include <bit>
#include <cmath>

namespace lumi {
namespace {

// A custom operation's user data must outlive the graph: the number itself does.
void * as_user_data(float cap) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(std::bit_cast<uint32_t>(cap)));
}

float cap_of(void * user_data) {
    return std::bit_cast<float>(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(user_data)));
}

// A column's label within it.
int64_t label_of(const ggml_tensor * cells, int64_t column, int64_t n_vocab) {
    return static_cast<const int32_t *>(cells->data)[column] - column * n_vocab;
}

void run_losses(ggml_tensor * dst, int ith, int nth, void * user_data) {
    const ggml_tensor * u = dst->src[0];
    const int64_t n_vocab = u->ne[0];
    const int64_t n_columns = u->ne[1];
    auto * out = static_cast<float *>(dst->data);
    const LogitRows rows = logit_rows();
    const Range mine = part(n_columns, 1, ith, nth);
    for (int64_t c = mine.begin; c < mine.end; ++c) {
        const LogitSums sums = rows.sums(static_cast<const float *>(u->data) + c * n_vocab, n_vocab,
                                         label_of(dst->src[1], c, n_vocab), cap_of(user_data));
        const double above_label = static_cast<double>(sums.largest - sums.label);
        out[c] = static_cast<float>(std::log(sums.exp_sum) + above_label);
        out[c + n_columns] = sums.largest;
        out[c + 2 * n_columns] = static_cast<float>(1.0 / sums.exp_sum);
    }
}

void run_gradient(ggml_tensor * dst, int ith, int nth, void * user_data) {
    const int64_t n_vocab = dst->ne[0];
    const int64_t n_columns = dst->ne[1];
    const auto * known = static_cast<const float *>(dst->src[1]->data);
    const auto * weight = static_cast<const float *>(dst->src[3]->data);
    const LogitRows rows = logit_rows();
    const Range mine = part(n_columns, 1, ith, nth);
    for (int64_t c = mine.begin; c < mine.end; ++c) {
        rows.gradient(static_cast<float *>(dst->data) + c * n_vocab, n_vocab,
                      label_of(dst->src[2], c, n_vocab), cap_of(user_data), known[c + n_columns],
                      known[c + 2 * n_columns], weight[c]);
    }
}

}  // namespace

LogitRows logit_rows() {
    return amx_available() ? logit_rows_avx512() : LogitRows{row_sums, row_gradient};
}

ggml_tensor * cross_entropy(ggml_context * ctx, ggml_tensor * u, ggml_tensor * cells, float cap) {
    ggml_tensor * args[] = {u, cells};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, u->ne[1], 3, 1, 1, args, 2, run_losses,
                          GGML_N_TASKS_MAX, as_user_data(cap));
}

ggml_tensor * cross_entropy_gradient(ggml_context * ctx, ggml_tensor * u, ggml_tensor * known,
                                     ggml_tensor * cells, ggml_tensor * weight, float cap) {
    ggml_tensor * args[] = {known, cells, weight};
    return ggml_custom_inplace(ctx, u, args, 3, run_gradient, GGML_N_TASKS_MAX, as_user_data(cap));
}

}  // namespace lumi
