// A four-layer configuration of Gemma 4's kind and a folder for files: what adapter tests share.
#pragma once

#include "adapter/adapter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <unistd.h>

namespace lumi {

// Layers 0 and 1 own K and V, layers 2 and 3 share them; layer 1 and 3 are global, wider heads.
inline Config small_config() {
    Config config;
    config.arch = Arch::gemma4;
    config.n_layer = 4;
    config.n_embd = 32;
    config.n_vocab = 64;
    config.n_ple = 8;
    for (int il = 0; il < config.n_layer; ++il) {
        LayerConfig layer;
        layer.is_swa = il % 2 == 0;
        layer.has_kv = il < 2;
        layer.kv_source = il % 2;
        layer.n_head = 2;
        layer.n_head_kv = 1;
        layer.head_dim = layer.is_swa ? 16 : 32;
        layer.n_rot = layer.head_dim;
        layer.n_ff = 96;
        config.layers.push_back(layer);
    }
    return config;
}

// Weights without data: present where the configuration has a module.
struct PresentWeights {
    Weights weights;
    ggml_tensor dummy{};

    explicit PresentWeights(const Config & config) {
        weights.layers.resize(static_cast<size_t>(config.n_layer));
        for (LayerWeights & layer : weights.layers) {
            layer.linear.fill(&dummy);
        }
    }
};

inline TargetSet every_module() {
    TargetSet targets;
    for (int m = 0; m < kModuleCount; ++m) {
        targets.modules.push_back(static_cast<Module>(m));
    }
    return targets;
}

// An adapter over every module whose B is not zero.
inline AdapterData filled_adapter(const Config & config, uint64_t seed) {
    const PresentWeights present(config);
    AdapterData adapter = make_adapter(config, present.weights, every_module(), 4, 6.0F, seed);
    float x = 0.001F;
    for (LoraMatrixPair & pair : adapter.pairs) {
        for (float & b : pair.b) {
            b = x;
            x = -x * 1.01F;
            x = x > 1.0F ? 0.001F : x;
        }
    }
    return adapter;
}

// A folder of its own for each test, removed at the end.
class TempFolder {
  public:
    TempFolder() {
        const auto * info = testing::UnitTest::GetInstance()->current_test_info();
        path_ = std::filesystem::temp_directory_path() /
                ("lumi-" + std::to_string(getpid()) + "-" + info->name());
        std::filesystem::create_directories(path_);
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder &) = delete;
    TempFolder & operator=(const TempFolder &) = delete;
    std::string file(const std::string & name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace lumi
