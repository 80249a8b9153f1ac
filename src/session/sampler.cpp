// The sampler's steps, each a few lines over a list of candidates. Ties are broken by the lower
// token id everywhere, so that results do not depend on a sort's whims.
#include "session/sampler.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>

namespace lumi {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

using Candidate = std::pair<float, int32_t>;

bool better(const Candidate & a, const Candidate & b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
}

Error out_of_range(const std::string & field, const std::string & found, const char * allowed) {
    return {ErrorKind::invalid_argument, field + " is " + found + ", allowed is " + allowed};
}

Status check_float(const char * field, float value, float low, float high, const char * allowed) {
    if (!(value >= low && value <= high)) {  // NaN fails both
        return out_of_range(field, std::to_string(value), allowed);
    }
    return {};
}

Status check_token(const std::string & field, int32_t token, int n_vocab) {
    if (token < 0 || token >= n_vocab) {
        return Error{ErrorKind::invalid_argument, field + " names token " + std::to_string(token) +
                                                      ", the vocabulary has 0 to " +
                                                      std::to_string(n_vocab - 1)};
    }
    return {};
}

// A model in trouble shows it here first (cases/inference.md M12): the request fails, nobody else.
Status check_logits(std::span<const float> logits) {
    bool above = false;  // NaN or +inf
    bool any = false;
    for (const float x : logits) {
        above |= !(x <= FLT_MAX);
        any |= x >= -FLT_MAX;
    }
    if (!above && any) {
        return {};
    }
    if (!above) {
        return Error{ErrorKind::numeric, "every logit is -infinity"};
    }
    const auto bad =
        std::find_if(logits.begin(), logits.end(), [](float x) { return !(x <= FLT_MAX); });
    return Error{ErrorKind::numeric, "the logit of token " + std::to_string(bad - logits.begin()) +
                                         " is " + (std::isnan(*bad) ? "NaN" : "+infinity")};
}

// The best n tokens of logits, best first; those at -infinity never count.
void best_tokens(std::span<const float> logits, size_t n, std::vector<Candidate> & out) {
    out.clear();
    // A heap whose front is the worst kept: most of a large vocabulary costs one comparison each.
    for (size_t i = 0; i < logits.size(); ++i) {
        const Candidate candidate{logits[i], static_cast<int32_t>(i)};
        if (candidate.first == kNever) {
            continue;
        }
        if (out.size() < n) {
            out.push_back(candidate);
            std::push_heap(out.begin(), out.end(), better);
        } else if (candidate.first > out.front().first) {
            std::pop_heap(out.begin(), out.end(), better);
            out.back() = candidate;
            std::push_heap(out.begin(), out.end(), better);
        }
    }
    std::sort(out.begin(), out.end(), better);
}

// log(sum(exp(logits))).
double log_sum_exp(std::span<const float> logits) {
    const float top = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float x : logits) {
        sum += static_cast<double>(std::exp(x - top));
    }
    return static_cast<double>(top) + std::log(sum);
}

}  // namespace

Status SamplerOptions::check(int n_vocab) const {
    LUMI_TRY(check_float("temperature", temperature, 0.0F, 100.0F, "0 to 100"));
    if (top_k < 0) {
        return out_of_range("top_k", std::to_string(top_k), "0 (off) or more");
    }
    LUMI_TRY(check_float("top_p", top_p, FLT_MIN, 1.0F, "above 0, up to 1"));
    LUMI_TRY(check_float("min_p", min_p, 0.0F, 1.0F, "0 to 1"));
    LUMI_TRY(check_float("repeat_penalty", repeat_penalty, 0.01F, 100.0F, "0.01 to 100"));
    LUMI_TRY(check_float("frequency_penalty", frequency_penalty, -100.0F, 100.0F, "-100 to 100"));
    LUMI_TRY(check_float("presence_penalty", presence_penalty, -100.0F, 100.0F, "-100 to 100"));
    if (repeat_window < -1) {
        return out_of_range("repeat_window", std::to_string(repeat_window), "-1 (all) or more");
    }
    for (const auto & [token, bias] : logit_bias) {
        LUMI_TRY(check_token("logit_bias", token, n_vocab));
        if (bias != kNever) {
            const std::string field = "logit_bias of token " + std::to_string(token);
            LUMI_TRY(
                check_float(field.c_str(), bias, -100.0F, 100.0F, "-100 to 100, or -infinity"));
        }
    }
    for (const int32_t token : suppressed) {
        LUMI_TRY(check_token("suppressed", token, n_vocab));
    }
    return {};
}

Sampler::Sampler(SamplerOptions options, int n_vocab)
    : options_(std::move(options)), n_vocab_(n_vocab), rng_(options_.seed) {}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
    if (logits.size() != static_cast<size_t>(n_vocab_)) {
        return Error{ErrorKind::internal, "the sampler got " + std::to_string(logits.size()) +
                                              " logits for a vocabulary of " +
                                              std::to_string(n_vocab_)};
    }
    LUMI_TRY(check_logits(logits));
    logits = adjust(logits, history);
    if (options_.temperature == 0.0F) {
        best_tokens(logits, 1, candidates_);
    } else {
        gather(logits);
    }
    if (candidates_.empty()) {
        return Error{ErrorKind::numeric,
                     "logit bias and suppressed tokens leave no token to choose"};
    }
    return draw();
}

// The logits with bias, suppression and penalties; the model's own when there are none.
std::span<const float> Sampler::adjust(std::span<const float> logits,
                                       std::span<const int32_t> history) {
    const bool penalties = options_.repeat_penalty != 1.0F || options_.frequency_penalty != 0.0F ||
                           options_.presence_penalty != 0.0F;
    if (!penalties && options_.logit_bias.empty() && options_.suppressed.empty()) {
        return logits;
    }
    adjusted_.assign(logits.begin(), logits.end());
    for (const auto & [token, bias] : options_.logit_bias) {
        adjusted_[static_cast<size_t>(token)] += bias;
    }
    for (const int32_t token : options_.suppressed) {
        adjusted_[static_cast<size_t>(token)] = kNever;
    }
    if (penalties) {
        penalise(history);
    }
    return adjusted_;
}

void Sampler::penalise(std::span<const int32_t> history) {
    const size_t window =
        options_.repeat_window < 0 ? history.size() : static_cast<size_t>(options_.repeat_window);
    counts_.clear();
    for (const int32_t token : history.last(std::min(window, history.size()))) {
        if (token >= 0 && token < n_vocab_) {
            ++counts_[token];
        }
    }
    for (const auto & [token, count] : counts_) {
        float & x = adjusted_[static_cast<size_t>(token)];
        // Away from "likely" whatever the sign.
        x = x > 0.0F ? x / options_.repeat_penalty : x * options_.repeat_penalty;
        x -= static_cast<float>(count) * options_.frequency_penalty + options_.presence_penalty;
        x = std::min(x, FLT_MAX);
    }
}

// Fills candidates_ with what top-k, top-p and min-p leave.
void Sampler::gather(std::span<const float> logits) {
    const size_t n = logits.size();
    if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < n) {
        best_tokens(logits, static_cast<size_t>(options_.top_k), candidates_);
    } else {
        candidates_.clear();
        for (size_t i = 0; i < n; ++i) {
            if (logits[i] != kNever) {
                candidates_.emplace_back(logits[i], static_cast<int32_t>(i));
            }
        }
    }
    if (options_.top_p < 1.0F) {
        keep_top_p();
    }
    if (options_.min_p > 0.0F) {
        keep_min_p();
    }
}

// The smallest set of most likely candidates whose probability reaches top_p.
void Sampler::keep_top_p() {
    if (candidates_.empty()) {
        return;
    }
    const float top = std::max_element(candidates_.begin(), candidates_.end())->first;
    double total = 0.0;
    for (const Candidate & c : candidates_) {
        total += std::exp(static_cast<double>(c.first - top));
    }
    const double wanted = static_cast<double>(options_.top_p) * total;
    // Sorting the likely end is enough; a flat distribution makes the end longer.
    double sum = 0.0;
    size_t sorted = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
        if (i == sorted) {
            sorted = std::min(candidates_.size(), std::max<size_t>(256, 4 * sorted));
            const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(i);
            std::partial_sort(begin, candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                              candidates_.end(), better);
        }
        sum += std::exp(static_cast<double>(candidates_[i].first - top));
        if (sum >= wanted) {
            candidates_.resize(i + 1);
            return;
        }
    }
}

// Those at least min_p times as likely as the best.
void Sampler::keep_min_p() {
    if (candidates_.empty()) {
        return;
    }
    const float top = std::max_element(candidates_.begin(), candidates_.end())->first;
    const float lowest = top + std::log(options_.min_p);
    std::erase_if(candidates_, [&](const Candidate & c) { return c.first < lowest; });
}

int32_t Sampler::draw() {
    if (candidates_.size() == 1) {
        return candidates_.front().second;
    }
    const double temperature = static_cast<double>(options_.temperature);
    const double top =
        static_cast<double>(std::max_element(candidates_.begin(), candidates_.end())->first);
    const auto weight = [&](const Candidate & c) {
        return std::exp((static_cast<double>(c.first) - top) / temperature);
    };
    double total = 0.0;
    for (const Candidate & c : candidates_) {
        total += weight(c);
    }
    double left = rng_.uniform() * total;
    for (const Candidate & c : candidates_) {
        left -= weight(c);
        if (left < 0.0) {
            return c.second;
        }
    }
    // Rounding can leave a crumb: it belongs to the best, which every distribution holds.
    return std::min_element(candidates_.begin(), candidates_.end(), better)->second;
}

Result<std::vector<TokenProbability>> Sampler::top_log_probabilities(std::span<const float> logits,
                                                                     int n) {
    if (n < 0 || static_cast<size_t>(n) > logits.size()) {
        return Error{ErrorKind::invalid_argument, "asked for the best " + std::to_string(n) +
                                                      " of " + std::to_string(logits.size()) +
                                                      " tokens"};
    }
    LUMI_TRY(check_logits(logits));
    std::vector<TokenProbability> result;
    if (n == 0) {
        return result;
    }
    const double normaliser = log_sum_exp(logits);
    std::vector<Candidate> best;
    best_tokens(logits, static_cast<size_t>(n), best);
    for (const Candidate & c : best) {
        const double log_p = static_cast<double>(c.first) - normaliser;
        result.push_back({c.second, static_cast<float>(log_p)});
    }
    return result;
}

Result<float> Sampler::log_probability(std::span<const float> logits, int32_t token) {
    LUMI_TRY(check_token("log_probability", token, static_cast<int>(logits.size())));
    LUMI_TRY(check_logits(logits));
    const double x = static_cast<double>(logits[static_cast<size_t>(token)]);
    return static_cast<float>(x - log_sum_exp(logits));
}

}  // namespace lumi
