// Weights, targets and adapters of the small configuration, and a folder for files.
#pragma once

#include "adapter/adapter.h"
#include "support/small_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include <unistd.h>

namespace lumi {

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
