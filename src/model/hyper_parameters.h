// Typed, range-checked reads of one architecture's metadata keys. Every message names the key, what
// was found and what is allowed.
#pragma once

#include "gguf/gguf_file.h"

#include <optional>
#include <string>
#include <vector>

namespace lumi {

// Numbers above these are not a model anybody made; they keep every product of two far from 2^63.
inline constexpr int kMaxLayers = 512;
inline constexpr int kMaxWidth = 1 << 20;  // n_embd, n_ff
inline constexpr int kMaxHeads = 1024;
inline constexpr int kMaxHeadDim = 1024;
inline constexpr int kMaxContext = 1 << 30;
inline constexpr int kMaxVocabulary = 1 << 24;

class HyperParameters {
  public:
    HyperParameters(const GgufFile & file, std::string arch)
        : file_(&file), arch_(std::move(arch)) {}

    const GgufFile & file() const { return *file_; }
    std::string key(std::string_view name) const { return arch_ + "." + std::string(name); }
    bool has(std::string_view name) const { return file_->has(key(name)); }

    // fallback: the value of an absent key; without one the key is required.
    Result<int> integer(std::string_view name, int low, int high,
                        std::optional<int> fallback = std::nullopt) const;
    Result<float> number(std::string_view name, float low, float high,
                         std::optional<float> fallback = std::nullopt) const;
    // One value for all layers, or an array with one a layer.
    Result<std::vector<int>> per_layer(std::string_view name, int n_layer, int low, int high,
                                       std::optional<int> fallback = std::nullopt) const;
    // True = sliding: an array with one flag a layer, or a period p (every p-th layer is global).
    // fallback_period 0: the key is required.
    Result<std::vector<bool>> sliding_pattern(int n_layer, int fallback_period) const;

    // "'gemma4.block_count' is 0, allowed are 1 to 512", as an invalid_file error.
    Error out_of_range(std::string_view name, const std::string & found,
                       const std::string & allowed) const;

  private:
    Result<int> checked(std::string_view name, int64_t value, int low, int high) const;

    const GgufFile * file_;
    std::string arch_;
};

}  // namespace lumi
