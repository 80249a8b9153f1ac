// A LoRA adapter in three forms: numbers on the host (AdapterData), a GGUF file in llama.cpp's
// format, and tensors on a device that graphs read (DeviceAdapter). y += scale * B (A x).
#pragma once

#include "device/device.h"
#include "model/weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lumi {

// Input and output widths of a module's weight; {n, 0} where this model has no such weight.
struct ModuleShape {
    int64_t n_in = 0;
    int64_t n_out = 0;
    bool exists() const { return n_in > 0 && n_out > 0; }
};
ModuleShape module_shape(const Config & config, int layer, Module module);
// False also for K and V of layers that read another layer's: an adapter there changes nothing.
bool module_is_live(const Config & config, int layer, Module module);

// The largest rank a pair for this weight may have; beyond it a pair holds more than the weight.
inline int64_t largest_rank(ModuleShape shape) {
    return std::max(shape.n_in, shape.n_out);
}

struct LoraMatrixPair {
    int layer = 0;
    Module module = Module::q;
    int64_t n_in = 0;
    int64_t n_out = 0;
    int rank = 0;
    std::vector<float> a;  // ggml [n_in, rank]
    std::vector<float> b;  // ggml [rank, n_out]
};

struct AdapterData {
    float alpha = 0.0F;  // scale of each pair = alpha / rank
    std::vector<LoraMatrixPair> pairs;
    // Training record: key "train.epochs" is saved as the string lumi.train.epochs.
    std::map<std::string, std::string> record;
    std::string base_fingerprint;  // GgufFile::fingerprint() of the base, may be empty
    std::string base_name;         // may be empty

    uint64_t n_parameters() const;
    Status check_finite() const;  // names the first tensor with a non-finite number
};

// "16", or "4 to 16" where pairs differ; "q, v, ple_gate of layers 0 to 23".
std::string rank_text(const AdapterData & adapter);
std::string targets_text(const AdapterData & adapter);

// Loads and checks against the model's config: architecture, shapes, complete pairs, known names,
// alpha present and finite and > 0, rank >= 1, finite data of type F32, F16, BF16 or Q8_0. Pairs on
// dead K/V of shared layers are dropped with a warning in the log; an unknown or missing base
// fingerprint warns.
Result<AdapterData> load_adapter(const GgufFile & file, const Config & config,
                                 const std::string & base_fingerprint);
// Writes llama.cpp's format, F32. Refuses non-finite numbers; the old file stays on failure.
Status save_adapter(const AdapterData & adapter, const Config & config, const std::string & path);

// Which pairs a new adapter gets. modules empty = all seven (q,k,v,o,gate,up,down); layer range
// inclusive; K/V of layers that own none are never created.
struct TargetSet {
    std::vector<Module> modules;
    int first_layer = 0;
    int last_layer = -1;  // -1 = the last
    bool contains(Module module) const;
};
// "q,v,gate", "all" (the seven), "tail" (only layers above the last K/V owner), "ple", or several:
// "tail,q,o"; the error lists what exists.
Result<TargetSet> parse_targets(std::string_view text, const Config & config);
// A ~ uniform(-1/sqrt(n_in), 1/sqrt(n_in)) (the usual Kaiming bound with a = sqrt(5)) from one
// generator across tensors in file order, B = 0.
AdapterData make_adapter(const Config & config, const Weights & weights, const TargetSet & targets,
                         int rank, float alpha, uint64_t seed);

// A pair as graphs use it.
struct LoraTensors {
    ggml_tensor * a = nullptr;  // F32 [n_in, rank]
    ggml_tensor * b = nullptr;  // F32 [rank, n_out]
    float scale = 0.0F;         // alpha / rank, times the user's scale
};

// The pairs of one or several adapters, looked up by graphs. Cheap to copy; does not own tensors.
class LoraView {
  public:
    void add(int layer, Module module, LoraTensors tensors);
    // Every adapter that touches this weight, in the order added.
    const std::vector<LoraTensors> & find(int layer, Module module) const;
    bool empty() const { return pairs_.empty(); }
    // Ok when every pair takes part in the graph: an adapter never goes without effect in silence
    // (cases/training.md L12).
    Status check_applied(ggml_cgraph * graph) const;
    // The lowest layer with a pair; a large number when empty.
    int lowest_layer() const;

  private:
    std::map<int, std::vector<LoraTensors>> pairs_;  // layer * kModuleCount + module
};

// An adapter uploaded to a device. Immutable; requests under way share it (hence shared_ptr users).
class DeviceAdapter {
  public:
    static Result<std::unique_ptr<DeviceAdapter>> create(const AdapterData & data,
                                                         const Device & device);
    void add_to(LoraView & view, float user_scale) const;
    uint64_t bytes() const;

  private:
    DeviceAdapter() = default;
    GgmlContext context_;
    GgmlBuffer buffer_;
    struct Entry {
        int layer;
        Module module;
        LoraTensors tensors;
    };
    std::vector<Entry> entries_;
};

}  // namespace lumi
