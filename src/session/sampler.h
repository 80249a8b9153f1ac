// Chooses the next token. Order: logit bias and suppressed tokens, penalties, top-k, top-p, min-p,
// temperature, draw. Temperature 0 is greedy. Same seed and logits, same tokens.
#pragma once

#include "base/rng.h"

#include <lumi/error.h>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace lumi {

struct SamplerOptions {
    float temperature = 1.0F;        // [0, 100]
    int top_k = 64;                  // 0 = off
    float top_p = 0.95F;             // (0, 1]
    float min_p = 0.0F;              // [0, 1]
    float repeat_penalty = 1.0F;     // over the last repeat_window tokens; 1 = off
    float frequency_penalty = 0.0F;  // subtracted per occurrence
    float presence_penalty = 0.0F;   // subtracted once
    int repeat_window = 64;
    uint64_t seed = 42;
    std::map<int32_t, float> logit_bias;
    std::vector<int32_t> suppressed;

    Status check(int n_vocab) const;  // names the field, what was found and the range
};

struct TokenProbability {
    int32_t token = -1;
    float log_probability = 0.0F;  // of the model's own distribution (before any filter)
};

class Sampler {
  public:
    Sampler(SamplerOptions options, int n_vocab);
    // history: tokens so far, newest last (penalties look at its end). NaN or all -inf logits are a
    // numeric error.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> history);
    // log p(token) and the best n of the model's own distribution.
    Result<std::vector<TokenProbability>> top_log_probabilities(std::span<const float> logits,
                                                                int n) const;
    static Result<float> log_probability(std::span<const float> logits, int32_t token);

  private:
    SamplerOptions options_;
    Rng rng_;
    std::vector<std::pair<float, int32_t>> candidates_;
};

}  // namespace lumi
