// The chunked loss: see loss.h. In-place writes (SET_ROWS) go only to tensors that nothing but
// their own source reads, so that a backend that reorders a graph cannot break them.
#include "graph/loss.h"

#include "device/cross_entropy.h"

#include <algorithm>
#include <limits>

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

// Weights above and below zero apart. CLAMP works in place, so it gets a copy.
struct WeightParts {
    ggml_tensor * positive;
    ggml_tensor * negative;
};

WeightParts parts_of(ggml_context * ctx, ggml_tensor * weight) {
    constexpr float kMost = std::numeric_limits<float>::max();
    ggml_tensor * negative = ggml_clamp(ctx, ggml_scale(ctx, weight, 1.0F), -kMost, 0.0F);
    return {ggml_sub(ctx, weight, negative), negative};
}

// How much a loss still counts when it is to rise, h'(l), [1, C].
ggml_tensor * push_of(ggml_context * ctx, ggml_tensor * losses) {
    return ggml_clamp(ctx, ggml_scale_bias(ctx, losses, -1.0F, kUnlearnt), 0.0F, 1.0F);
}

// The derivative of weighted_loss by the loss, [1, C].
ggml_tensor * loss_slope(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * losses) {
    const WeightParts w = parts_of(ctx, weight);
    return ggml_add(ctx, w.positive, ggml_mul(ctx, w.negative, push_of(ctx, losses)));
}

// weighted_loss of every row, [1, R]: h(l) = kUnlearnt + 1/2 - h'(l)^2 / 2 - max(kUnlearnt - l, 1).
ggml_tensor * weighted_losses(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * losses) {
    constexpr float kMost = std::numeric_limits<float>::max();
    const WeightParts w = parts_of(ctx, weight);
    ggml_tensor * curve =
        ggml_scale_bias(ctx, ggml_sqr(ctx, push_of(ctx, losses)), -0.5F, kUnlearnt + 0.5F);
    ggml_tensor * line =
        ggml_clamp(ctx, ggml_scale_bias(ctx, losses, -1.0F, kUnlearnt), 1.0F, kMost);
    ggml_tensor * rising = ggml_mul(ctx, w.negative, ggml_sub(ctx, curve, line));
    return ggml_add(ctx, ggml_mul(ctx, w.positive, losses), rising);
}

// One chunk of rows. What its gradient needs is kept as the way of computing it left it.
struct ChunkLoss {
    ggml_tensor * losses = nullptr;  // [1, C]
    ChunkLogits logits = {};         // composed
    ggml_tensor * p = nullptr;       // composed: the softmax
    ggml_tensor * known = nullptr;   // on the CPU: of cross_entropy
};

ChunkLoss chunk_loss(GraphContext & g, const DecoderModel & model, ggml_tensor * x,
                     ggml_tensor * cells) {
    ChunkLoss chunk;
    if (g.products == Products::panels) {
        ggml_tensor * u = frozen_product(g, model.weights->output, x);
        chunk.logits = {u, nullptr};
        chunk.known = cross_entropy(g.ctx, u, cells, model.config->softcap);
        chunk.losses = ggml_view_2d(g.ctx, chunk.known, 1, chunk.known->ne[0], sizeof(float), 0);
        return chunk;
    }
    chunk.logits = logits_of(g, model, x);
    chunk.p = ggml_soft_max(g.ctx, chunk.logits.z);
    chunk.losses = row_losses(g.ctx, chunk.logits.z, chunk.p, cells);
    return chunk;
}

// Of sum over rows of weight * loss for the product's result u, [V, C].
ggml_tensor * chunk_gradient(GraphContext & g, const DecoderModel & model, const ChunkLoss & chunk,
                             ggml_tensor * cells, ggml_tensor * weight) {
    if (chunk.known != nullptr) {
        return cross_entropy_gradient(g.ctx, chunk.logits.z, chunk.known, cells, weight,
                                      model.config->softcap);
    }
    return logit_gradient(g.ctx, chunk.logits, chunk.p, cells, weight);
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
    for (int64_t first = 0; first < x->ne[1]; first += chunk_rows) {
        const int64_t count = std::min<int64_t>(chunk_rows, x->ne[1] - first);
        const auto offset = static_cast<size_t>(first);
        ggml_tensor * part = ggml_view_2d(ctx, x, x->ne[0], count, x->nb[1], offset * x->nb[1]);
        ggml_tensor * cells =
            ggml_view_1d(ctx, inputs.label_cells, count, offset * sizeof(int32_t));
        const ChunkLoss chunk = chunk_loss(g, model, part, cells);
        loss.row_loss = append(ctx, loss.row_loss, chunk.losses);
        ggml_build_forward_expand(graph, loss.row_loss);
        if (!gradient) {
            continue;
        }
        ggml_tensor * weight = ggml_view_2d(ctx, inputs.weights, 1, count, inputs.weights->nb[1],
                                            offset * inputs.weights->nb[1]);
        ggml_tensor * slope =
            ggml_mul(ctx, loss_slope(ctx, weight, chunk.losses), inputs.loss_scale);
        ggml_tensor * du = chunk_gradient(g, model, chunk, cells, slope);
        ggml_tensor * dx = frozen_product_transposed(g, model.weights->output, du);
        if (dx == nullptr) {
            return loss;
        }
        loss.dx = append(ctx, loss.dx, dx);
        ggml_build_forward_expand(graph, loss.dx);
    }
    loss.loss_sum = ggml_sum(ctx, weighted_losses(ctx, inputs.weights, loss.row_loss));
    ggml_build_forward_expand(graph, loss.loss_sum);
    return loss;
}

double weighted_loss(double weight, double loss) {
    const auto end = static_cast<double>(kUnlearnt);
    if (weight >= 0.0 || loss <= end - 1.0) {
        return weight * loss;
    }
    const double push = std::max(end - loss, 0.0);
    return weight * (end - 0.5 - 0.5 * push * push);
}

void fill_label_cells(std::span<const int32_t> tokens, int n_vocab, int chunk_rows,
                      std::span<int32_t> cells) {
    for (size_t row = 0; row < tokens.size(); ++row) {
        const auto in_chunk = static_cast<int32_t>(row % static_cast<size_t>(chunk_rows));
        cells[row] = in_chunk * n_vocab + tokens[row];
    }
}

}  // namespace lumi
