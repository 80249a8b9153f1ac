// Samples side by side in one graph run: each sees only itself, its positions start at 0. One
// product then serves many short samples, which is what makes small chats train fast on a CPU.
#pragma once

#include "graph/decoder.h"
#include "train/dataset.h"

namespace lumi {

// Host-side content of one run. Tokens and rows are padded to multiples of kPaddingUnit; padding
// tokens belong to no sample, padding rows have weight 0, and neither changes any number of a
// sample (cases/training.md L27).
struct PackedBatch {
    std::vector<int32_t> tokens;
    std::vector<int32_t> positions;  // within the sample
    std::vector<int32_t> segments;   // index of the token's sample in this batch, -1 = padding
    std::vector<int32_t> rows;       // ascending: tokens whose next token is a target, then padding
    std::vector<int32_t> labels;     // per row: the token that follows
    std::vector<float> weights;      // per row
    std::vector<int> row_samples;    // per row: index into the samples packed, -1 = padding
    uint64_t n_tokens = 0;           // without padding
    uint64_t n_targets = 0;

    GraphShape shape() const;
};

// Also the least number of rows a product with a frozen weight gets: narrower ones would take a
// path whose inputs are rounded (design, Range).
inline constexpr int kPaddingUnit = 8;

// Tokens that samples are packed up to. Beyond it products gain nothing more, while attention,
// which computes all pairs of tokens, keeps growing.
inline constexpr int kPackTokens = 256;

// First-fit into batches of at most most_tokens, in the order given. A longer sample gets a batch
// of its own.
std::vector<PackedBatch> pack_samples(std::span<const Sample * const> samples,
                                      int most_tokens = kPackTokens);

// The sum of |weight| over all targets of the samples: what a step's loss is divided by (L26).
double total_weight(std::span<const Sample * const> samples);

// Writes 0 where row token i may look at token j, minus infinity elsewhere: same sample, not later,
// and with window > 0 fewer than window tokens back. A padding token sees itself. mask is
// [tokens, rows]; rows are token indices.
void fill_mask(const PackedBatch & batch, std::span<const int32_t> rows, int window,
               std::span<float> mask);

}  // namespace lumi
