// Qwen3's own keys (dense models): plain attention in every layer, a head size that does not follow
// from the width, SwiGLU, no norms after the branches.

#include "model/architectures.h"

#include "base/utf8.h"

#include <cmath>

namespace lumi {

namespace {

// Long-context variants declare YaRN, which bends every angle and attention's scale: leaving it out
// would be silently wrong.
Status refuse_rope_scaling(const HyperParameters & keys) {
    constexpr const char * kType = "rope.scaling.type";
    if (keys.has(kType)) {
        const std::string_view type = LUMI_TRY(keys.file().get_string(keys.key(kType)));
        if (type != "none") {
            return Error{ErrorKind::unsupported,
                         keys.file().path() + ": '" + keys.key(kType) + "' is " + quoted(type, 32) +
                             ", a long-context variant; lumi runs Qwen3 without rope scaling"};
        }
    }
    return {};
}

}  // namespace

Status read_qwen3(const HyperParameters & keys, Config & config) {
    LUMI_TRY(refuse_rope_scaling(keys));
    const int fallback = config.n_embd / config.layers.front().n_head;
    const int dim = LUMI_TRY(keys.integer("attention.key_length", 2, kMaxHeadDim, fallback));
    const int value_dim = LUMI_TRY(keys.integer("attention.value_length", 2, kMaxHeadDim, dim));
    const int n_rot = LUMI_TRY(keys.integer("rope.dimension_count", 2, kMaxHeadDim, dim));
    if (dim % 2 != 0) {
        return keys.out_of_range("attention.key_length", std::to_string(dim), "an even number");
    }
    if (value_dim != dim) {
        return keys.out_of_range("attention.value_length", std::to_string(value_dim),
                                 std::to_string(dim) + " as the key length");
    }
    if (n_rot != dim) {
        return keys.out_of_range("rope.dimension_count", std::to_string(n_rot),
                                 std::to_string(dim) + " as the key length");
    }
    const float base = LUMI_TRY(keys.number("rope.freq_base", 1.0F, 1e12F));
    for (size_t il = 0; il < config.layers.size(); ++il) {
        LayerConfig & layer = config.layers[il];
        layer.kv_source = static_cast<int>(il);
        layer.head_dim = dim;
        layer.n_rot = dim;
        layer.rope_base = base;
    }
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(dim));
    config.embedding_scale = 1.0F;
    config.activation = Activation::silu;
    config.post_norms = false;
    return {};
}

}  // namespace lumi
