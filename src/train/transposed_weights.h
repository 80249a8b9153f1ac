// Transposed copies of the frozen weights that input gradients pass through, for devices that have
// no product with a transposed operand of every type. The CPU's panels need none.
#pragma once

#include "model/model.h"

#include <unordered_map>

namespace lumi {

class TransposedWeights {
  public:
    // Copies of every linear weight of layers first_layer and above, and of the output matrix: F32
    // on the CPU and of F32 weights, elsewhere BF16 where the device multiplies it, else F16.
    static Result<std::unique_ptr<TransposedWeights>> create(const Model & model, int first_layer);
    // The same without memory, to measure graphs and to plan.
    static std::unique_ptr<TransposedWeights> describe(const Model & model, int first_layer);

    ggml_tensor * find(const ggml_tensor * weight) const;  // [out, in]; null when there is none
    uint64_t bytes() const;

  private:
    TransposedWeights() = default;
    void make_tensors(const Model & model, int first_layer);

    GgmlContext context_;
    GgmlBuffer buffer_;
    std::vector<std::pair<const ggml_tensor *, ggml_tensor *>> copies_;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> by_weight_;
};

}  // namespace lumi
