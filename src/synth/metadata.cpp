// The inverse of model/config.cpp, in the key order and types of the usual converters.

#include "synth/metadata.h"

#include <algorithm>

namespace lumi {

namespace {

// A plain number when all layers agree, as converters write it; else one a layer.
void set_per_layer(GgufWriter & writer, const std::string & key, const Config & config,
                   int LayerConfig::*field) {
    std::vector<int32_t> values;
    for (const LayerConfig & layer : config.layers) {
        values.push_back(layer.*field);
    }
    if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end()) {
        writer.set_u32(key, static_cast<uint32_t>(values.front()));
    } else {
        writer.set_i32s(key, values);
    }
}

const LayerConfig & first_layer(const Config & config, bool swa) {
    const auto at = std::find_if(config.layers.begin(), config.layers.end(),
                                 [&](const LayerConfig & l) { return l.is_swa == swa; });
    return at != config.layers.end() ? *at : config.layers.front();
}

}  // namespace

void write_config_metadata(const Config & config, GgufWriter & writer) {
    const std::string arch = arch_name(config.arch);
    const auto u32 = [&](const char * key, int value) {
        writer.set_u32(arch + "." + key, static_cast<uint32_t>(value));
    };
    const auto f32 = [&](const char * key, float value) {
        writer.set_f32(arch + "." + key, value);
    };
    const LayerConfig & global = first_layer(config, false);
    const LayerConfig & sliding = first_layer(config, true);

    writer.set_string("general.architecture", arch);
    writer.set_string("general.type", "model");
    writer.set_string("general.name", config.name);
    u32("block_count", config.n_layer);
    u32("context_length", config.n_ctx_train);
    u32("embedding_length", config.n_embd);
    set_per_layer(writer, arch + ".feed_forward_length", config, &LayerConfig::n_ff);
    set_per_layer(writer, arch + ".attention.head_count", config, &LayerConfig::n_head);
    set_per_layer(writer, arch + ".attention.head_count_kv", config, &LayerConfig::n_head_kv);
    f32("attention.layer_norm_rms_epsilon", config.eps);
    u32("attention.key_length", global.head_dim);
    u32("attention.value_length", global.head_dim);
    if (config.window > 0) {
        u32("attention.sliding_window", config.window);
    }
    f32("rope.freq_base", global.rope_base);
    if (config.arch != Arch::gemma4) {
        return;
    }
    std::vector<bool> pattern;
    for (const LayerConfig & layer : config.layers) {
        pattern.push_back(layer.is_swa);
    }
    writer.set_bools(arch + ".attention.sliding_window_pattern", pattern);
    u32("attention.key_length_swa", sliding.head_dim);
    u32("attention.value_length_swa", sliding.head_dim);
    u32("attention.shared_kv_layers", config.n_layer - config.n_kv_layers());
    u32("embedding_length_per_layer_input", config.n_ple);
    f32("final_logit_softcapping", config.softcap);
    f32("rope.freq_base_swa", sliding.rope_base);
    u32("rope.dimension_count", global.n_rot);
    u32("rope.dimension_count_swa", sliding.n_rot);
}

}  // namespace lumi
