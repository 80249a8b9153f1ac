// The numbers of E4B, E2B, Gemma 3 270M and Qwen3 0.6B as published, and small shapes for tests.

#include "synth/shapes.h"

#include <cmath>
#include <string_view>

namespace lumi {

namespace {

// The tiny ones have all of their family's paths; most of their rows are multiples of 256, so that
// K-quants are really used.
// clang-format off
constexpr SynthShape kShapes[] = {
    // name           title                                  family        dead   pattern     layers shared
    //   n_embd  ple   vocab    ctx window   ff ff shared heads kv head dims
    {"tiny",        "tiny Gemma 4, random weights",        Arch::gemma4, false, "ssgsgssg",  8,  3,
         256,  64,    512,    512,   8,   256,   512,  4, 2,  64, 128},
    {"tiny-gemma3", "tiny Gemma 3, random weights",        Arch::gemma3, false, "sssssg",    7,  0,
         256,   0,    512,    512,   8,   512,   512,  4, 1,  64,  64},
    {"tiny-qwen3",  "tiny Qwen3, random weights",          Arch::qwen3,  false, "g",         6,  0,
         256,   0,    512,    512,   0,   512,   512,  4, 2, 128, 128},
    {"gemma3-270m", "Gemma 3 270M shape, random weights",  Arch::gemma3, false, "sssssg",   18,  0,
         640,   0, 262144,  32768, 512,  2048,  2048,  4, 1, 256, 256},
    {"qwen3-0.6b",  "Qwen3 0.6B shape, random weights",    Arch::qwen3,  false, "g",        28,  0,
        1024,   0, 151936,  40960,   0,  3072,  3072, 16, 8, 128, 128},
    {"e2b",         "Gemma 4 E2B shape, random weights",   Arch::gemma4, true,  "ssssg",    35, 20,
        1536, 256, 262144, 131072, 512,  6144, 12288,  8, 1, 256, 512},
    {"e4b",         "Gemma 4 E4B shape, random weights",   Arch::gemma4, true,  "sssssg",   42, 18,
        2560, 256, 262144, 131072, 512, 10240, 10240,  8, 2, 256, 512},
};
// clang-format on

}  // namespace

Config SynthShape::config() const {
    const bool is_gemma4 = arch == Arch::gemma4;
    Config config;
    config.arch = arch;
    config.name = title;
    config.n_layer = n_layer;
    config.n_embd = n_embd;
    config.n_vocab = n_vocab;
    config.n_ctx_train = n_ctx;
    config.window = window;
    config.n_ple = n_ple;
    config.eps = 1e-6F;
    config.attention_scale = is_gemma4 ? 1.0F : 1.0F / std::sqrt(static_cast<float>(head_dim));
    if (arch == Arch::qwen3) {
        config.activation = Activation::silu;
        config.post_norms = false;
    } else {
        config.embedding_scale = std::sqrt(static_cast<float>(n_embd));
    }
    if (is_gemma4) {
        config.softcap = 30.0F;
        config.v_norm = true;
    }
    const std::string_view kinds = pattern;
    const int n_owners = n_layer - n_shared;
    for (int il = 0; il < n_layer; ++il) {
        LayerConfig layer;
        layer.is_swa = kinds[static_cast<size_t>(il) % kinds.size()] == 's';
        layer.has_kv = il < n_owners;
        // Every prefix here ends in a sliding and then a global layer.
        layer.kv_source = layer.has_kv ? il : n_owners - (layer.is_swa ? 2 : 1);
        layer.n_head = n_head;
        layer.n_head_kv = n_head_kv;
        layer.head_dim = layer.is_swa ? head_dim_swa : head_dim;
        layer.n_rot = layer.head_dim;
        layer.n_ff = layer.has_kv ? n_ff : n_ff_shared;
        layer.rope_base = layer.is_swa ? 1e4F : 1e6F;
        layer.rope_factors = is_gemma4 && !layer.is_swa;
        config.layers.push_back(layer);
    }
    return config;
}

std::span<const SynthShape> all_shapes() {
    return kShapes;
}

}  // namespace lumi
