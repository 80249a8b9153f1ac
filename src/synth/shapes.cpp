// The numbers of E4B, E2B and Gemma 3 270M as published, and two small shapes for tests.

#include "synth/shapes.h"

#include <cmath>

namespace lumi {

namespace {

struct Gemma4Numbers {
    const char * name;
    int n_layer, n_shared;
    int n_embd, n_ple, n_vocab, n_ctx, window;
    int n_ff_owner, n_ff_shared;
    int n_head, n_head_kv;
    int head_dim_swa, head_dim;
};

// is_global says which layers see everything.
Config gemma4(const Gemma4Numbers & n, bool (*is_global)(int il)) {
    Config config;
    config.arch = Arch::gemma4;
    config.name = n.name;
    config.n_layer = n.n_layer;
    config.n_embd = n.n_embd;
    config.n_vocab = n.n_vocab;
    config.n_ctx_train = n.n_ctx;
    config.window = n.window;
    config.n_ple = n.n_ple;
    config.eps = 1e-6F;
    config.attention_scale = 1.0F;
    config.embedding_scale = std::sqrt(static_cast<float>(n.n_embd));
    config.softcap = 30.0F;
    config.v_norm = true;
    const int n_owners = n.n_layer - n.n_shared;
    for (int il = 0; il < n.n_layer; ++il) {
        LayerConfig layer;
        layer.is_swa = !is_global(il);
        layer.has_kv = il < n_owners;
        // Every prefix here ends in a sliding and then a global layer.
        layer.kv_source = layer.has_kv ? il : n_owners - (layer.is_swa ? 2 : 1);
        layer.n_head = n.n_head;
        layer.n_head_kv = n.n_head_kv;
        layer.head_dim = layer.is_swa ? n.head_dim_swa : n.head_dim;
        layer.n_rot = layer.head_dim;
        layer.n_ff = layer.has_kv ? n.n_ff_owner : n.n_ff_shared;
        layer.rope_base = layer.is_swa ? 1e4F : 1e6F;
        layer.rope_factors = !layer.is_swa;
        config.layers.push_back(layer);
    }
    return config;
}

struct Gemma3Numbers {
    const char * name;
    int n_layer, n_embd, n_vocab, n_ctx, window, n_ff, n_head, n_head_kv, head_dim;
};

Config gemma3(const Gemma3Numbers & n) {
    Config config;
    config.arch = Arch::gemma3;
    config.name = n.name;
    config.n_layer = n.n_layer;
    config.n_embd = n.n_embd;
    config.n_vocab = n.n_vocab;
    config.n_ctx_train = n.n_ctx;
    config.window = n.window;
    config.eps = 1e-6F;
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(n.head_dim));
    config.embedding_scale = std::sqrt(static_cast<float>(n.n_embd));
    for (int il = 0; il < n.n_layer; ++il) {
        LayerConfig layer;
        layer.is_swa = (il + 1) % 6 != 0;
        layer.kv_source = il;
        layer.n_head = n.n_head;
        layer.n_head_kv = n.n_head_kv;
        layer.head_dim = n.head_dim;
        layer.n_rot = n.head_dim;
        layer.n_ff = n.n_ff;
        layer.rope_base = layer.is_swa ? 1e4F : 1e6F;
        config.layers.push_back(layer);
    }
    return config;
}

Config e4b() {
    return gemma4({.name = "Gemma 4 E4B shape, random weights",
                   .n_layer = 42,
                   .n_shared = 18,
                   .n_embd = 2560,
                   .n_ple = 256,
                   .n_vocab = 262144,
                   .n_ctx = 131072,
                   .window = 512,
                   .n_ff_owner = 10240,
                   .n_ff_shared = 10240,
                   .n_head = 8,
                   .n_head_kv = 2,
                   .head_dim_swa = 256,
                   .head_dim = 512},
                  [](int il) { return (il + 1) % 6 == 0; });
}

Config e2b() {
    return gemma4({.name = "Gemma 4 E2B shape, random weights",
                   .n_layer = 35,
                   .n_shared = 20,
                   .n_embd = 1536,
                   .n_ple = 256,
                   .n_vocab = 262144,
                   .n_ctx = 131072,
                   .window = 512,
                   .n_ff_owner = 6144,
                   .n_ff_shared = 12288,
                   .n_head = 8,
                   .n_head_kv = 1,
                   .head_dim_swa = 256,
                   .head_dim = 512},
                  [](int il) { return (il + 1) % 5 == 0; });
}

// All of Gemma 4's paths; most rows are multiples of 256, so that K-quants are really used.
Config tiny() {
    return gemma4({.name = "tiny Gemma 4, random weights",
                   .n_layer = 8,
                   .n_shared = 3,
                   .n_embd = 256,
                   .n_ple = 64,
                   .n_vocab = 512,
                   .n_ctx = 512,
                   .window = 8,
                   .n_ff_owner = 256,
                   .n_ff_shared = 512,
                   .n_head = 4,
                   .n_head_kv = 2,
                   .head_dim_swa = 64,
                   .head_dim = 128},
                  [](int il) { return il == 2 || il == 4 || il == 7; });
}

Config gemma3_270m() {
    return gemma3({.name = "Gemma 3 270M shape, random weights",
                   .n_layer = 18,
                   .n_embd = 640,
                   .n_vocab = 262144,
                   .n_ctx = 32768,
                   .window = 512,
                   .n_ff = 2048,
                   .n_head = 4,
                   .n_head_kv = 1,
                   .head_dim = 256});
}

Config tiny_gemma3() {
    return gemma3({.name = "tiny Gemma 3, random weights",
                   .n_layer = 7,
                   .n_embd = 256,
                   .n_vocab = 512,
                   .n_ctx = 512,
                   .window = 8,
                   .n_ff = 512,
                   .n_head = 4,
                   .n_head_kv = 1,
                   .head_dim = 64});
}

constexpr SynthShape kShapes[] = {
    {"tiny", false, tiny},
    {"tiny-gemma3", false, tiny_gemma3},
    {"gemma3-270m", false, gemma3_270m},
    {"e2b", true, e2b},
    {"e4b", true, e4b},
};

}  // namespace

std::span<const SynthShape> all_shapes() {
    return kShapes;
}

}  // namespace lumi
