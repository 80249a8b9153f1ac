// Gemma 3's own keys: one head size, a period of sliding layers, linear rope scaling on global
// ones.

#include "model/architectures.h"

#include <cmath>

namespace lumi {

namespace {

constexpr int kLayersOf27B = 62;  // its attention scale is 1/sqrt(n_embd / n_head)

// 1 / factor; 1 without scaling. Models from 4B on stretch their global layers by 8.
Result<float> rope_scale(const HyperParameters & keys) {
    if (keys.has("rope.scaling.type")) {
        const std::string_view type =
            LUMI_TRY(keys.file().get_string(keys.key("rope.scaling.type")));
        if (type == "none") {
            return 1.0F;
        }
        if (type != "linear") {
            return Error{ErrorKind::unsupported,
                         keys.file().path() + ": '" + keys.key("rope.scaling.type") + "' is '" +
                             std::string(type) + "', lumi knows 'linear' and 'none'"};
        }
    }
    // Older converters wrote rope.scale_linear.
    const char * name =
        keys.has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
    const float factor = LUMI_TRY(keys.number(name, 0.0F, 1e6F, 1.0F));
    return factor == 0.0F ? 1.0F : 1.0F / factor;
}

}  // namespace

Status read_gemma3(const HyperParameters & keys, Config & config) {
    config.window = LUMI_TRY(keys.integer("attention.sliding_window", 0, kMaxContext, 0));
    std::vector<bool> sliding(config.layers.size(), false);
    if (config.window > 0) {
        sliding = LUMI_TRY(keys.sliding_pattern(config.n_layer, 6));
    }
    const int n_head = config.layers.front().n_head;
    const int dim =
        LUMI_TRY(keys.integer("attention.key_length", 2, kMaxHeadDim, config.n_embd / n_head));
    const int value_dim =
        LUMI_TRY(keys.integer("attention.value_length", 2, kMaxHeadDim, config.n_embd / n_head));
    if (value_dim != dim) {
        return keys.out_of_range("attention.value_length", std::to_string(value_dim),
                                 std::to_string(dim) + " as the key length");
    }
    const int n_rot = LUMI_TRY(keys.integer("rope.dimension_count", 2, dim, dim));
    if (dim % 2 != 0 || n_rot % 2 != 0) {
        return keys.out_of_range("attention.key_length", std::to_string(dim),
                                 "an even number, as is the number of rotated dimensions");
    }
    const float base = LUMI_TRY(keys.number("rope.freq_base", 1.0F, 1e12F));
    const float base_swa = LUMI_TRY(keys.number("rope.freq_base_swa", 1.0F, 1e12F, 1e4F));
    const float scale = LUMI_TRY(rope_scale(keys));
    for (size_t il = 0; il < config.layers.size(); ++il) {
        LayerConfig & layer = config.layers[il];
        layer.is_swa = sliding[il];
        layer.has_kv = true;
        layer.kv_source = static_cast<int>(il);
        layer.head_dim = dim;
        layer.n_rot = n_rot;
        layer.rope_base = layer.is_swa ? base_swa : base;
        layer.rope_scale = layer.is_swa ? 1.0F : scale;
    }
    config.softcap = LUMI_TRY(keys.number("final_logit_softcapping", 0.0F, 1e6F, 0.0F));
    const int scaled_dim = config.n_layer == kLayersOf27B ? config.n_embd / n_head : dim;
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(scaled_dim));
    return {};
}

}  // namespace lumi
