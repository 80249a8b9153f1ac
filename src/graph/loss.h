// Cross entropy of the supervised rows and its gradient, in chunks of rows so that only a few
// [n_vocab, chunk] tensors exist at once; no one-hot labels, no full logits.
#pragma once

#include "graph/decoder.h"

#include <span>

namespace lumi {

// A target of negative weight is one to unlearn, and -log p has no end to climb to. Its loss l
// counts as h(l): l itself up to kUnlearnt - 1, then ever less, and no more from kUnlearnt on,
// where p is 0.25 %. What is minimised is so bounded, and a token that is unlearnt no longer
// pushes.
inline constexpr float kUnlearnt = 6.0F;
// weight * l, or weight * h(l) for a negative weight.
double weighted_loss(double weight, double loss);

struct LossInputs {
    ggml_tensor * label_cells = nullptr;  // I32 [R], see fill_label_cells
    ggml_tensor * weights = nullptr;      // F32 [1, R]
    ggml_tensor * loss_scale = nullptr;   // F32 [1]
};

struct LossTensors {
    ggml_tensor * row_loss = nullptr;  // F32 [1, R]: -log p(label)
    ggml_tensor * loss_sum = nullptr;  // F32 [1]: sum of weighted_loss(weight, row_loss)
    // Gradient of loss_scale * loss_sum for x, [n_embd, R]; null when not asked for or not
    // possible.
    ggml_tensor * dx = nullptr;
};

// x [n_embd, R]: the stream after the final norm. Chunks are expanded into graph one by one.
LossTensors build_loss(GraphContext & g, ggml_cgraph * graph, const DecoderModel & model,
                       ggml_tensor * x, const LossInputs & inputs, int chunk_rows, bool gradient);

// Where each row's target token lies in the flat logits of its chunk: (row mod chunk) * n_vocab +
// token. cells and tokens have one entry a row.
void fill_label_cells(std::span<const int32_t> tokens, int n_vocab, int chunk_rows,
                      std::span<int32_t> cells);

}  // namespace lumi
