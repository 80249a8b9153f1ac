// The sums of compare.h, in double.
#include "compare.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lumi::bench {
namespace {

// log of the sum of exp.
double log_normaliser(std::span<const float> logits) {
    const double top = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
    double sum = 0.0;
    for (const float x : logits) {
        sum += std::exp(static_cast<double>(x) - top);
    }
    return top + std::log(sum);
}

}  // namespace

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
    const double p_norm = log_normaliser(p_logits);
    const double q_norm = log_normaliser(q_logits);
    double sum = 0.0;
    for (size_t i = 0; i < p_logits.size(); ++i) {
        const double log_p = static_cast<double>(p_logits[i]) - p_norm;
        const double log_q = static_cast<double>(q_logits[i]) - q_norm;
        sum += std::exp(log_p) * (log_p - log_q);
    }
    return sum;
}

double max_difference(std::span<const float> a, std::span<const float> b) {
    double worst = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
        worst = d <= worst ? worst : d;  // NaN stays
    }
    return worst;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0.0 : values[values.size() / 2];
}

}  // namespace lumi::bench
