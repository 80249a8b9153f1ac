// A loaded model: the open file, its config and its weights on a device. Immutable after load
// (adapters are separate); const methods may run on any thread.
#pragma once

#include "device/device.h"
#include "device/memory_plan.h"
#include "model/weights.h"

#include <functional>
#include <memory>
#include <span>

namespace lumi {

struct ModelOptions {
    std::string device = "auto";
    int n_threads = 0;                // 0 = physical cores
    bool repack = true;               // CPU: keep a repacked twin for inference when memory allows
    uint64_t memory_limit_bytes = 0;  // 0 = what is available
    std::function<void(double fraction)> progress;
};

class Model {
  public:
    static Result<std::unique_ptr<Model>> load(GgufFile file, const ModelOptions & options);
    ~Model();

    const GgufFile & file() const { return file_; }
    const Config & config() const { return config_; }
    const Device & device() const { return device_; }

    // For inference graphs: the repacked twin where one exists. Such tensors may be nothing but the
    // first operand of a plain MUL_MAT: no views, no GET_ROWS, no custom operations.
    const Weights & inference_weights() const { return inference_; }
    // For training graphs: the mapped file itself (CPU) or the plain device copy (GPU).
    const Weights & plain_weights() const { return plain_; }
    bool repacked() const { return repacked_bytes_ > 0; }

    // Rows of the embedding table, dequantised: out is [n_embd, ids.size()] F32, unscaled.
    Status gather_embeddings(std::span<const int32_t> ids, std::span<float> out) const;
    // Rows of the PLE table for layers [first, first + count): out is [n_ple*count, ids.size()].
    Status gather_ple(std::span<const int32_t> ids, int first_layer, int n_layers,
                      std::span<float> out) const;

    // Mapped and anonymous bytes of the weights as loaded.
    MemoryPlan memory_plan() const;

  private:
    friend class ModelLoader;
    Model(GgufFile file, Device device);
    GgufFile file_;
    Config config_;
    Device device_;
    Weights plain_;
    Weights inference_;
    std::vector<GgmlContext> contexts_;
    std::vector<GgmlBuffer> buffers_;
    uint64_t mapped_bytes_ = 0;
    uint64_t device_bytes_ = 0;  // copies: uploaded, or vectors converted to F32
    uint64_t repacked_bytes_ = 0;
};

}  // namespace lumi
