// The chunked loss: see loss.h. In-place writes (SET_ROWS) go only to tensors that nothing but
// their own source reads, so that a backend that reorders a graph cannot break them.
#include "graph/loss.h"

#include <algorithm>

namespace lumi {
namespace {

struct ChunkLogits {
    ggml_tensor * z;  // [V, C] after the softcap
    ggml_tensor * t;  // tanh(u / cap); null without a softcap
};

ChunkLogits logits_of(GraphContext & g, const DecoderModel & model, ggml_tensor * x) {
    ggml_tensor * u = frozen_product(g, model.weights->output, x);
    const float cap = model.config->softcap;
    if (cap <= 0.0F) {
        return {u, nullptr};
    }
    ggml_tensor * t = ggml_tanh(g.ctx, ggml_scale(g.ctx, u, 1.0F / cap));
    return {ggml_scale(g.ctx, t, cap), t};
}

// A [V, C] matrix as a column of cells.
ggml_tensor * cells_of(ggml_context * ctx, ggml_tensor * x) {
    return ggml_reshape_2d(ctx, x, 1, ggml_nelements(x));
}

// -log softmax(z)[label], [1, C]. The shift is the mean of z under p: it lies within log(V) below
// the largest z, so exp neither overflows nor loses the sum, and needs no MAX operation.
ggml_tensor * row_losses(ggml_context * ctx, ggml_tensor * z, ggml_tensor * p,
                         ggml_tensor * cells) {
    ggml_tensor * shift = ggml_sum_rows(ctx, ggml_mul(ctx, p, z));  // [1, C]
    ggml_tensor * mass = ggml_sum_rows(ctx, ggml_exp(ctx, ggml_sub(ctx, z, shift)));
    ggml_tensor * log_sum = ggml_add(ctx, ggml_log(ctx, mass), shift);
    return ggml_sub(ctx, log_sum, ggml_get_rows(ctx, cells_of(ctx, z), cells));
}

// dL/du [V, C] = (p - one_hot(label)) * weight * (1 - t^2). weight [1, C] holds the loss scale too.
ggml_tensor * logit_gradient(ggml_context * ctx, const ChunkLogits & logits, ggml_tensor * p,
                             ggml_tensor * cells, ggml_tensor * weight) {
    ggml_tensor * weighted = cells_of(ctx, ggml_mul(ctx, p, weight));
    ggml_tensor * at_label = ggml_sub(ctx, ggml_get_rows(ctx, weighted, cells), weight);  // [1, C]
    ggml_tensor * du = ggml_set_rows(ctx, weighted, at_label, cells);
    du = ggml_reshape_2d(ctx, du, p->ne[0], p->ne[1]);
    if (logits.t == nullptr) {
        return du;
    }
    return ggml_mul(ctx, du, ggml_scale_bias(ctx, ggml_sqr(ctx, logits.t), -1.0F, 1.0F));
}

// Appends columns to a matrix that may not exist yet.
ggml_tensor * append(ggml_context * ctx, ggml_tensor * so_far, ggml_tensor * more) {
    return so_far == nullptr ? more : ggml_concat(ctx, so_far, more, 1);
}

}  // namespace

LossTensors build_loss(GraphContext & g, ggml_cgraph * graph, const DecoderModel & model,
                       ggml_tensor * x, const LossInputs & inputs, int chunk_rows, bool gradient) {
    ggml_context * ctx = g.ctx;
    LossTensors loss;
    // The row weights as the gradient sees them, [1, R].
    ggml_tensor * scaled = gradient ? ggml_mul(ctx, inputs.weights, inputs.loss_scale) : nullptr;
    for (int64_t first = 0; first < x->ne[1]; first += chunk_rows) {
        const int64_t count = std::min<int64_t>(chunk_rows, x->ne[1] - first);
        const auto offset = static_cast<size_t>(first);
        ggml_tensor * part = ggml_view_2d(ctx, x, x->ne[0], count, x->nb[1], offset * x->nb[1]);
        ggml_tensor * cells =
            ggml_view_1d(ctx, inputs.label_cells, count, offset * sizeof(int32_t));
        const ChunkLogits logits = logits_of(g, model, part);
        ggml_tensor * p = ggml_soft_max(ctx, logits.z);
        ggml_tensor * losses = row_losses(ctx, logits.z, p, cells);
        loss.row_loss = append(ctx, loss.row_loss, losses);
        ggml_build_forward_expand(graph, loss.row_loss);
        if (!gradient) {
            continue;
        }
        ggml_tensor * weight =
            ggml_view_2d(ctx, scaled, 1, count, scaled->nb[1], offset * scaled->nb[1]);
        ggml_tensor * du = logit_gradient(ctx, logits, p, cells, weight);
        ggml_tensor * dx = frozen_product_transposed(g, model.weights->output, du);
        if (dx == nullptr) {
            return loss;
        }
        loss.dx = append(ctx, loss.dx, dx);
        ggml_build_forward_expand(graph, loss.dx);
    }
    loss.loss_sum = ggml_sum(ctx, ggml_mul(ctx, loss.row_loss, inputs.weights));
    ggml_build_forward_expand(graph, loss.loss_sum);
    return loss;
}

void fill_label_cells(std::span<const int32_t> tokens, int n_vocab, int chunk_rows,
                      std::span<int32_t> cells) {
    for (size_t row = 0; row < tokens.size(); ++row) {
        const auto in_chunk = static_cast<int32_t>(row % static_cast<size_t>(chunk_rows));
        cells[row] = in_chunk * n_vocab + tokens[row];
    }
}

}  // namespace lumi
