// A four-layer configuration of Gemma 4's kind, for tests and fuzzing.
#pragma once

#include "model/config.h"

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

}  // namespace lumi
