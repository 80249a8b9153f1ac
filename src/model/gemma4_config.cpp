// Gemma 4's own keys: two head sizes, two rope bases, shared K/V, per-layer embeddings, softcap.

#include "model/architectures.h"

namespace lumi {

namespace {

// A layer without K and V of its own reads those of the last owner of its kind.
Status assign_kv_sources(const HyperParameters & keys, Config & config, int n_owners) {
    for (int il = 0; il < config.n_layer; ++il) {
        LayerConfig & layer = config.layers[static_cast<size_t>(il)];
        layer.has_kv = il < n_owners;
        layer.kv_source = il;
        if (layer.has_kv) {
            continue;
        }
        int source = n_owners - 1;
        while (source >= 0 && config.layers[static_cast<size_t>(source)].is_swa != layer.is_swa) {
            --source;
        }
        if (source < 0) {
            return keys.out_of_range(
                "attention.shared_kv_layers", std::to_string(config.n_layer - n_owners),
                "a count that leaves a " + std::string(layer.is_swa ? "sliding" : "global") +
                    " layer with K and V for layer " + std::to_string(il));
        }
        // The consumer's shape must be the source's: one cache serves both.
        const LayerConfig & owner = config.layers[static_cast<size_t>(source)];
        if (owner.n_head_kv != layer.n_head_kv) {
            return keys.out_of_range("attention.head_count_kv",
                                     std::to_string(layer.n_head_kv) + " in layer " +
                                         std::to_string(il),
                                     std::to_string(owner.n_head_kv) + " as in layer " +
                                         std::to_string(source) + ", whose K and V it reads");
        }
        layer.kv_source = source;
    }
    return {};
}

// The larger models have no V projection in global layers: V is the raw K projection there. It is a
// property of the kind, so one missing tensor among present ones stays a missing tensor.
void find_v_is_k(const GgufFile & file, Config & config) {
    bool any_v = false;
    for (int il = 0; il < config.n_layer; ++il) {
        const LayerConfig & layer = config.layers[static_cast<size_t>(il)];
        any_v |= layer.has_kv && !layer.is_swa &&
                 file.find_tensor("blk." + std::to_string(il) + ".attn_v.weight") != nullptr;
    }
    for (LayerConfig & layer : config.layers) {
        layer.v_is_k = layer.has_kv && !layer.is_swa && !any_v;
    }
}

Result<int> head_dim(const HyperParameters & keys, const char * key_name, const char * value_name) {
    const int dim = LUMI_TRY(keys.integer(key_name, 2, kMaxHeadDim));
    const int value_dim = LUMI_TRY(keys.integer(value_name, 2, kMaxHeadDim, dim));
    if (value_dim != dim) {
        return keys.out_of_range(value_name, std::to_string(value_dim),
                                 std::to_string(dim) + " as '" + keys.key(key_name) + "'");
    }
    if (dim % 2 != 0) {
        return keys.out_of_range(key_name, std::to_string(dim), "an even number");
    }
    return dim;
}

Result<int> rotated_dims(const HyperParameters & keys, const char * name, int dim) {
    const int n_rot = LUMI_TRY(keys.integer(name, 2, dim, dim));
    if (n_rot % 2 != 0) {
        return keys.out_of_range(name, std::to_string(n_rot), "an even number");
    }
    return n_rot;
}

}  // namespace

Status read_gemma4(const HyperParameters & keys, Config & config) {
    if (LUMI_TRY(keys.integer("expert_count", 0, 1 << 20, 0)) > 0) {
        return Error{ErrorKind::unsupported,
                     keys.file().path() + ": '" + keys.key("expert_count") +
                         "' says this is a mixture-of-experts model (26B-A4B); lumi runs the dense "
                         "Gemma 4 models (E2B, E4B, 12B, 31B)"};
    }
    const std::vector<bool> sliding = LUMI_TRY(keys.sliding_pattern(config.n_layer, 0));
    const int dim = LUMI_TRY(head_dim(keys, "attention.key_length", "attention.value_length"));
    const int dim_swa =
        LUMI_TRY(head_dim(keys, "attention.key_length_swa", "attention.value_length_swa"));
    const int n_rot = LUMI_TRY(rotated_dims(keys, "rope.dimension_count", dim));
    const int n_rot_swa = LUMI_TRY(rotated_dims(keys, "rope.dimension_count_swa", dim_swa));
    const float base = LUMI_TRY(keys.number("rope.freq_base", 1.0F, 1e12F));
    const float base_swa = LUMI_TRY(keys.number("rope.freq_base_swa", 1.0F, 1e12F, 1e4F));
    for (size_t il = 0; il < config.layers.size(); ++il) {
        LayerConfig & layer = config.layers[il];
        layer.is_swa = sliding[il];
        layer.head_dim = layer.is_swa ? dim_swa : dim;
        layer.n_rot = layer.is_swa ? n_rot_swa : n_rot;
        layer.rope_base = layer.is_swa ? base_swa : base;
        // Only global layers have factors, whatever the file holds (cases/inference.md M16).
        layer.rope_factors = !layer.is_swa;
    }
    config.window = LUMI_TRY(keys.integer("attention.sliding_window", 1, kMaxContext));
    const int n_shared =
        LUMI_TRY(keys.integer("attention.shared_kv_layers", 0, config.n_layer - 1, 0));
    LUMI_TRY(assign_kv_sources(keys, config, config.n_layer - n_shared));
    find_v_is_k(keys.file(), config);
    config.n_ple = LUMI_TRY(keys.integer("embedding_length_per_layer_input", 0, 1 << 14));
    config.softcap = LUMI_TRY(keys.number("final_logit_softcapping", 0.0F, 1e6F, 0.0F));
    config.attention_scale = 1.0F;
    config.v_norm = true;
    return {};
}

}  // namespace lumi
