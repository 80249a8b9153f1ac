// How far two models' logits lie apart.
#pragma once

#include <span>
#include <vector>

namespace lumi::bench {

// KL(p || q) of the distributions of two rows of logits, in nats.
double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits);
double max_difference(std::span<const float> a, std::span<const float> b);
double median(std::vector<double> values);

}  // namespace lumi::bench
