// Dropout of the input of LoRA pairs that learn. A run draws one long tensor of factors, and every
// pair reads a stretch of it that starts elsewhere: [in, T] numbers for each of hundreds of pairs
// would take more memory than the activations. Reading the same stretch again is what makes a
// recomputed layer drop the same numbers. Frozen adapters and evaluation know no dropout.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <span>
#include <unordered_map>

namespace lumi {

struct LoraDropout {
    ggml_tensor * factors = nullptr;                            // F32 [n]: see fill_dropout
    std::unordered_map<const ggml_tensor *, int64_t> starts{};  // of a pair's stretch, by its A
};

// Where the n-th pair's stretch begins, and how many factors serve `pairs` stretches of at most
// `longest` numbers.
int64_t dropout_start(int64_t pair);
int64_t dropout_factors(int64_t pairs, int64_t longest);

// Independent numbers: 0 with the given probability in [0, 1), else 1 / (1 - probability), so that
// the mean is 1. The same seed gives the same numbers, whatever the number of threads.
void fill_dropout(uint64_t seed, float probability, std::span<float> factors);

// The seed of one run's factors: a function of the training seed, the step and the run within it,
// so that a step done again, or a run resumed from a checkpoint, drops the same numbers.
uint64_t dropout_seed(uint64_t training_seed, uint64_t step, uint64_t run);

}  // namespace lumi
