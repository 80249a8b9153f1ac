// Ranges by role. Norm weights stay away from 0 and 1 so that leaving one out shows.

#include "synth/values.h"

#include <cmath>

namespace lumi {

namespace {

struct Range {
    float low, high;
};

// Query and key weights of this mean give attention logits a standard deviation near 2 whatever
// the head size: sqrt(head_dim) * w * w * scale = 2.
Range qk_range(const TensorRole & role, const Config & config) {
    const float mean =
        std::sqrt(2.0F / (config.attention_scale * std::sqrt(static_cast<float>(role.ne[0]))));
    return {0.6F * mean, 1.4F * mean};
}

Range range_of(const TensorRole & role, const Config & config) {
    const std::string_view name = role.name;
    if (name == "output_norm.weight") {
        // The rows of the head have norm 1, so this is the logits' standard deviation; the best of
        // a vocabulary lies 3 (512 tokens) to 5 (262144) of them out.
        return config.softcap > 0 ? Range{6.0F, 12.0F} : Range{2.0F, 4.0F};
    }
    if (name.ends_with("_q_norm.weight") || name.ends_with("_k_norm.weight")) {
        return qk_range(role, config);
    }
    if (name.ends_with("layer_output_scale.weight")) {
        return {0.6F, 0.95F};
    }
    if (name.ends_with(".post_attention_norm.weight") || name.ends_with(".post_ffw_norm.weight")) {
        // Without a layer scale nothing makes the token's own embedding fade, and with a tied head
        // a strong one wins every time: larger branches keep Gemma 3 from repeating its input.
        return config.arch == Arch::gemma3 ? Range{1.2F, 2.2F} : Range{0.3F, 0.8F};
    }
    if (name.ends_with(".post_norm.weight")) {
        return {0.2F, 0.6F};
    }
    return {0.5F, 1.5F};
}

}  // namespace

float matrix_sd(const TensorRole & role, const Config & config) {
    // Table rows are vectors of norm 1 before the graph's own scaling by sqrt(width).
    const int64_t n = role.name == "per_layer_token_embd.weight" ? config.n_ple : role.ne[0];
    return 1.0F / std::sqrt(static_cast<float>(n));
}

std::vector<float> vector_values(const TensorRole & role, const Config & config, Rng & rng) {
    std::vector<float> values(static_cast<size_t>(role.ne[0]));
    if (role.name == "rope_freqs.weight") {
        // The published files: the first quarter of the pairs rotate, the rest stand still.
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = i < values.size() / 4 ? 1.0F : 1e30F;
        }
        return values;
    }
    const Range range = range_of(role, config);
    for (float & value : values) {
        value = range.low + (range.high - range.low) * static_cast<float>(rng.uniform());
    }
    return values;
}

}  // namespace lumi
