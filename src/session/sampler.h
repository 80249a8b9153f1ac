// Chooses the next token. Order: logit bias and suppressed tokens, penalties, top-k, top-p, min-p,
// temperature, draw. Temperature 0 is greedy. Same seed and logits, same tokens.
#pragma once

#include "base/rng.h"

#include <lumi/error.h>

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lumi {

struct SamplerOptions {
    float temperature = 1.0F;        // [0, 100]
    int top_k = 64;                  // 0 = off
    float top_p = 0.95F;             // (0, 1]
    float min_p = 0.0F;              // [0, 1]
    float repeat_penalty = 1.0F;     // [0.01, 100], over the last repeat_window tokens; 1 = off
    float frequency_penalty = 0.0F;  // [-100, 100], subtracted per occurrence
    float presence_penalty = 0.0F;   // [-100, 100], subtracted once
    int repeat_window = 64;          // tokens of history the penalties see; -1 = all
    uint64_t seed = 42;
    std::map<int32_t, float> logit_bias;  // [-100, 100], or -infinity for never
    std::vector<int32_t> suppressed;

    Status check(int n_vocab) const;  // names the field, what was found and the range
};

struct TokenProbability {
    int32_t token = -1;
    float log_probability = 0.0F;  // of the model's own distribution (before any filter)
};

class Sampler {
  public:
    // options have passed check(n_vocab).
    Sampler(SamplerOptions options, int n_vocab);
    // history: tokens so far, newest last (penalties look at its end). NaN, +inf or all -inf logits
    // are a numeric error.
    Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> history);
    // The best n of the model's own distribution, best first.
    static Result<std::vector<TokenProbability>>
    top_log_probabilities(std::span<const float> logits, int n);
    static Result<float> log_probability(std::span<const float> logits, int32_t token);

  private:
    using Candidate = std::pair<float, int32_t>;  // logit, token

    std::span<const float> adjust(std::span<const float> logits, std::span<const int32_t> history);
    void penalise(std::span<const int32_t> history);
    void gather(std::span<const float> logits);
    void keep_top_p();
    void keep_min_p();
    int32_t draw();

    SamplerOptions options_;
    int n_vocab_;
    Rng rng_;
    std::vector<float> adjusted_;
    std::unordered_map<int32_t, int> counts_;
    std::vector<Candidate> candidates_;
};

}  // namespace lumi
