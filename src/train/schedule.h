// The learning rate over time, and the loss smoothed over steps.
#pragma once

#include "train/trainer.h"

namespace lumi {

// step counts from 0. Rises linearly over the warm-up (at most half of the run), then follows the
// schedule, whose end would be reached one step after the last.
double learning_rate_at(const TrainOptions & options, int step, int total_steps);

// What a reader of single steps' losses wants to see: a tenth of the new one joins the old.
inline double smooth_loss(double smoothed, double loss) {
    return 0.9 * smoothed + 0.1 * loss;
}

}  // namespace lumi
