// The learning rate over time.
#pragma once

#include "train/trainer.h"

namespace lumi {

// step counts from 0. Rises linearly over the warm-up (at most half of the run), then follows the
// schedule, whose end would be reached one step after the last.
double learning_rate_at(const TrainOptions & options, int step, int total_steps);

}  // namespace lumi
