// The loss of a set of samples, computed slice by slice: validation during training and `lumi
// eval`.
#pragma once

#include "train/graph_runner.h"
#include "train/trainer.h"

namespace lumi {

class Evaluation {
  public:
    // The samples must outlive it.
    explicit Evaluation(std::span<const Sample> samples);

    // The next slice; true when every sample has its loss. A loss that is not finite is a numeric
    // error naming the sample's line.
    Result<bool> advance(GraphRunner & runner);
    EvalResult result() const;

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
