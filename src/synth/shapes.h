// The shapes that can be synthesised, as the Config a reader will get back.
#pragma once

#include "model/config.h"

namespace lumi {

struct SynthShape {
    const char * name;
    const char * title;
    Arch arch;
    bool dead_kv;          // published files keep K and V weights that sharing layers never use
    const char * pattern;  // s: sliding, g: global; repeated over the layers
    int n_layer, n_shared;
    int n_embd, n_ple, n_vocab, n_ctx, window;
    int n_ff, n_ff_shared;  // of layers that own and that share K and V
    int n_head, n_head_kv;
    int head_dim_swa, head_dim;

    Config config() const;  // n_vocab is the shape's own; a given vocabulary overrides it
};

std::span<const SynthShape> all_shapes();

}  // namespace lumi
