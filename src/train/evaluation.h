// The loss of a set of samples, computed slice by slice: validation during training and `lumi
// eval`.
#pragma once

#include "train/graph_runner.h"
#include "train/trainer.h"

#include <algorithm>

namespace lumi {

class Evaluation {
  public:
    // The samples must outlive it.
    explicit Evaluation(std::span<const Sample> samples);

    // The next slice; true when every sample has its loss. A loss that is not finite is a numeric
    // error naming the sample's line.
    Result<bool> advance(GraphRunner & runner);
    EvalResult result() const;
    // The share of the runs that are complete.
    double done_share() const {
        return static_cast<double>(next_) /
               static_cast<double>(std::max<size_t>(batches_.size(), 1));
    }

  private:
    Status collect(const PackedBatch & batch, const GraphRunner & runner);

    std::span<const Sample> samples_;
    std::vector<PackedBatch> batches_;
    size_t next_ = 0;  // batch
    bool running_ = false;
    std::vector<double> weighted_loss_;  // per sample
    std::vector<double> weight_;
};

}  // namespace lumi
