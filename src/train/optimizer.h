// AdamW over the flat parameters, and the norms that decide whether a step may happen. Runs on the
// device that holds them.
#pragma once

#include "device/device.h"
#include "train/parameters.h"

namespace lumi {

struct AdamwStep {
    float learning_rate = 0.0F;
    float beta1 = 0.9F;
    float beta2 = 0.999F;
    float epsilon = 1e-8F;         // outside the root
    float weight_decay = 0.0F;     // decoupled
    int step = 1;                  // 1-based, for the bias correction
    float gradient_factor = 1.0F;  // the gradients are multiplied by it first
};

class Optimizer {
  public:
    static Result<std::unique_ptr<Optimizer>> create(TrainParameters & parameters,
                                                     const Device & device);
    // Square root of the sum of squares; infinity or NaN when any number is not finite (or its
    // square is not, which is as hopeless).
    Result<double> gradient_norm() { return norm(gradient_squares_); }
    Result<double> weight_norm() { return norm(weight_squares_); }
    Status apply(const AdamwStep & step);

  private:
    Optimizer(TrainParameters & parameters, const Device & device)
        : parameters_(&parameters), device_(&device) {}
    // Row sums of squares of a flat tensor, in pieces so that the squares need little memory.
    struct Squares {
        ggml_cgraph * graph = nullptr;
        std::vector<ggml_tensor *> row_sums;  // [1, rows of the piece]
    };
    Squares build_squares(ggml_tensor * flat);
    Result<double> norm(const Squares & squares);

    TrainParameters * parameters_;
    const Device * device_;
    GgmlContext context_;
    GgmlAllocator allocator_;
    // Kept over all steps: freeing memory while a device works costs time, and some drivers more.
    GgmlContext settings_context_;
    GgmlBuffer settings_buffer_;
    ggml_tensor * settings_ = nullptr;  // F32 [7] of one update
    Squares gradient_squares_;
    Squares weight_squares_;
};

}  // namespace lumi
