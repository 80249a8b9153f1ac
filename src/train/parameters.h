// All trainable numbers as one flat tensor, and the same for their gradients and AdamW's two
// moments: what a step does to them is then a handful of operations however many pairs there are.
#pragma once

#include "adapter/adapter.h"
#include "graph/train_graph.h"

#include <span>

namespace lumi {

class TrainParameters {
  public:
    // Tensors on the device holding the adapter's numbers; gradients and moments zero.
    static Result<std::unique_ptr<TrainParameters>> create(const AdapterData & start,
                                                           const Device & device);
    // The same tensors without memory behind them, to measure a graph that uses them. They must
    // never be computed with.
    static std::unique_ptr<TrainParameters> describe(const AdapterData & start);

    // Each pair is a view into the flat tensors, at offsets every device can bind.
    std::span<const TrainablePair> pairs() const { return pairs_; }
    const LoraView & view() const { return view_; }

    // [kRowFloats, n] each.
    ggml_tensor * weights() const { return flat_[0]; }
    ggml_tensor * gradients() const { return flat_[1]; }
    ggml_tensor * first_moment() const { return flat_[2]; }
    ggml_tensor * second_moment() const { return flat_[3]; }
    static constexpr int64_t kRowFloats = 1024;

    void zero_gradients();
    std::vector<float> download() const;
    void upload(const std::vector<float> & flat);
    // Names of the weights whose B has no gradient at all.
    std::vector<std::string> without_gradient() const;
    // The numbers as an adapter: shapes, alpha, record and base as they were at the start.
    AdapterData to_adapter(const std::vector<float> & flat) const;
    uint64_t flat_bytes() const { return ggml_nbytes(flat_[0]); }

  private:
    TrainParameters() = default;
    void make_tensors(const AdapterData & start);

    AdapterData shape_;  // without numbers
    struct Offsets {
        size_t a;  // in floats
        size_t b;
    };
    std::vector<Offsets> offsets_;
    GgmlContext context_;
    GgmlBuffer buffer_;
    ggml_tensor * flat_[4] = {};
    std::vector<TrainablePair> pairs_;
    LoraView view_;
};

}  // namespace lumi
