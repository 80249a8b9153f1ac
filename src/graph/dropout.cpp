// The layout of the stretches and the numbers in them: see dropout.h.
#include "graph/dropout.h"

#include "base/rng.h"

namespace lumi {
namespace {

// Between the starts of two pairs: 256 bytes, what the strictest device asks of an offset. Any step
// serves: pairs of one width never drop the same feature of a token by the same number.
constexpr int64_t kStartStep = 64;

}  // namespace

int64_t dropout_start(int64_t pair) {
    return pair * kStartStep;
}

int64_t dropout_factors(int64_t pairs, int64_t longest) {
    return pairs * kStartStep + longest;
}

void fill_dropout(uint64_t seed, float probability, std::span<float> factors) {
    constexpr double kTwoTo32 = 4294967296.0;
    const auto limit = static_cast<uint64_t>(static_cast<double>(probability) * kTwoTo32);
    const float kept = 1.0F / (1.0F - probability);
    Rng rng(seed);
    uint64_t bits = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
        bits = i % 2 == 0 ? rng.next() : bits >> 32;
        factors[i] = (bits & 0xffffffffU) < limit ? 0.0F : kept;
    }
}

uint64_t dropout_seed(uint64_t training_seed, uint64_t step, uint64_t run) {
    Rng of_step(Rng(training_seed).next() + step);
    return Rng(of_step.next() + run).next();
}

}  // namespace lumi
