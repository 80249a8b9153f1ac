// Everything a graph must know about a model, read once from metadata and validated there. After
// that nobody looks at a GGUF key again: per-layer facts come only from LayerConfig.
#pragma once

#include "gguf/gguf_file.h"

#include <string>
#include <vector>

namespace lumi {

enum class Arch : unsigned char { gemma4, gemma3, qwen3 };
const char * arch_name(Arch arch);

enum class Activation : unsigned char { gelu_tanh, silu };

struct LayerConfig {
    bool is_swa = false;  // sees only the last `window` tokens, itself included
    bool has_kv = true;   // computes its own K and V
    int kv_source = 0;    // the layer whose K and V it reads (itself when has_kv)
    int n_head = 0;
    int n_head_kv = 0;
    int head_dim = 0;
    int n_rot = 0;
    int n_ff = 0;
    float rope_base = 10000.0F;
    float rope_scale = 1.0F;    // frequency scale (1 / linear scaling factor)
    bool rope_factors = false;  // divides angles by rope_freqs (gemma4's global layers)
    bool v_is_k = false;        // no V projection: V is the raw K projection

    int n_q() const { return n_head * head_dim; }
    int n_kv() const { return n_head_kv * head_dim; }
};

struct SamplingDefaults {  // general.sampling.*, with the usual values where absent
    float temperature = 1.0F;
    int top_k = 64;
    float top_p = 0.95F;
    float min_p = 0.0F;
};

struct Config {
    Arch arch = Arch::gemma4;
    std::string name;  // general.name or the file's base name
    int n_layer = 0;
    int n_embd = 0;
    int n_vocab = 0;
    int n_ctx_train = 0;
    int window = 0;  // sliding window in tokens, 0 = no sliding layers
    int n_ple = 0;   // per-layer embedding width, 0 = none
    float eps = 1e-6F;
    float attention_scale = 1.0F;
    float embedding_scale = 1.0F;  // sqrt(n_embd) in Gemma
    float softcap = 0.0F;          // final logits; 0 = none
    Activation activation = Activation::gelu_tanh;
    bool v_norm = false;     // weightless RMS norm on V
    bool post_norms = true;  // a norm after attention and after the FFN
    std::vector<LayerConfig> layers;
    SamplingDefaults sampling;

    // The last layer that computes its own K and V. From here on only rows whose logits somebody
    // wants are evaluated (design: skip what cannot matter).
    int last_kv_layer() const;
    int n_kv_layers() const;  // layers that own K and V
    // KV cache bytes one token takes in layers of one kind, for element size `bytes`.
    uint64_t kv_bytes_per_token(bool swa, double bytes) const;
};

// Reads and validates; an unknown architecture lists the supported ones.
Result<Config> read_config(const GgufFile & file);

}  // namespace lumi
