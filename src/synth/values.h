// How large each tensor's random numbers are, so that the stream stays of order one, no branch
// vanishes, attention is neither flat nor a spike, and logits reach the softcap's bend.
#pragma once

#include "base/rng.h"
#include "model/weights.h"

#include <vector>

namespace lumi {

// Standard deviation of a matrix.
float matrix_sd(const TensorRole & role, const Config & config);
// The numbers of a vector: norms, scales, rope factors.
std::vector<float> vector_values(const TensorRole & role, const Config & config, Rng & rng);

}  // namespace lumi
