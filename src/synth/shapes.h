// The shapes that can be synthesised, as the Config a reader will get back.
#pragma once

#include "model/config.h"

namespace lumi {

struct SynthShape {
    const char * name;
    bool dead_kv;        // published files keep K and V weights that sharing layers never use
    Config (*config)();  // n_vocab is the shape's own; a given vocabulary overrides it
};

std::span<const SynthShape> all_shapes();

}  // namespace lumi
