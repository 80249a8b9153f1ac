// Chooses the architecture, reads what all of them have, and checks it.

#include "model/config.h"

#include "base/utf8.h"
#include "model/architectures.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace lumi {

namespace {

struct ArchRow {
    Arch arch;
    const char * name;
    Status (*read)(const HyperParameters & keys, Config & config);
};

constexpr ArchRow kArchs[] = {
    {Arch::gemma4, "gemma4", read_gemma4},
    {Arch::gemma3, "gemma3", read_gemma3},
    {Arch::qwen3, "qwen3", read_qwen3},
};

Result<const ArchRow *> find_arch(const GgufFile & file) {
    const std::string_view name = LUMI_TRY(file.get_string("general.architecture"));
    std::string known;
    for (const ArchRow & row : kArchs) {
        if (name == row.name) {
            return &row;
        }
        known += std::string(known.empty() ? "" : ", ") + row.name;
    }
    return Error{ErrorKind::unsupported,
                 file.path() + ": the architecture is " + quoted(name) + ", lumi knows " + known};
}

Status check_is_model(const GgufFile & file) {
    if (file.has("general.type")) {
        const std::string_view type = LUMI_TRY(file.get_string("general.type"));
        if (type != "model") {
            return Error{ErrorKind::invalid_argument,
                         file.path() + ": general.type is " + quoted(type) + ", a model is needed" +
                             (type == "adapter" ? " (give adapters with --adapter)" : "")};
        }
    }
    return {};
}

// The vocabulary and the embedding table must have the same size, or rows would be missing.
Result<int> read_vocabulary_size(const GgufFile & file) {
    const TensorInfo * table = file.find_tensor("token_embd.weight");
    int64_t rows = table != nullptr ? table->ne[1] : 0;
    if (file.has("tokenizer.ggml.tokens")) {
        const uint64_t tokens = LUMI_TRY(file.array_length("tokenizer.ggml.tokens"));
        if (table != nullptr && static_cast<uint64_t>(rows) != tokens) {
            return Error{ErrorKind::invalid_file,
                         file.path() + ": token_embd.weight has " + std::to_string(rows) +
                             " rows, tokenizer.ggml.tokens has " + std::to_string(tokens) +
                             "; they must be equal"};
        }
        rows = tokens > static_cast<uint64_t>(kMaxVocabulary) ? kMaxVocabulary + 1
                                                              : static_cast<int64_t>(tokens);
    }
    if (rows < 1 || rows > kMaxVocabulary) {
        return Error{ErrorKind::invalid_file,
                     file.path() + ": the vocabulary has " + std::to_string(rows) +
                         " tokens, allowed are 1 to " + std::to_string(kMaxVocabulary)};
    }
    return static_cast<int>(rows);
}

// Widths and heads of every layer, which all architectures write alike.
Status read_layers(const HyperParameters & keys, Config & config) {
    const std::vector<int> n_ff =
        LUMI_TRY(keys.per_layer("feed_forward_length", config.n_layer, 1, kMaxWidth));
    const std::vector<int> n_head =
        LUMI_TRY(keys.per_layer("attention.head_count", config.n_layer, 1, kMaxHeads));
    std::vector<int> n_head_kv = n_head;
    if (keys.has("attention.head_count_kv")) {
        n_head_kv =
            LUMI_TRY(keys.per_layer("attention.head_count_kv", config.n_layer, 1, kMaxHeads));
    }
    config.layers.resize(static_cast<size_t>(config.n_layer));
    for (size_t il = 0; il < config.layers.size(); ++il) {
        if (n_head[il] % n_head_kv[il] != 0) {
            return keys.out_of_range("attention.head_count_kv", std::to_string(n_head_kv[il]),
                                     "a divisor of the head count " + std::to_string(n_head[il]) +
                                         " (layer " + std::to_string(il) + ")");
        }
        LayerConfig & layer = config.layers[il];
        layer.n_ff = n_ff[il];
        layer.n_head = n_head[il];
        layer.n_head_kv = n_head_kv[il];
    }
    return {};
}

// Attention softcapping is Gemma 2's; running such a file without it would be silently wrong
// (cases/inference.md M15).
Status refuse_attention_softcap(const HyperParameters & keys) {
    const float cap = LUMI_TRY(keys.number("attn_logit_softcapping", 0.0F, 1e6F, 0.0F));
    if (cap > 0.0F) {
        return Error{ErrorKind::unsupported, keys.file().path() + ": '" +
                                                 keys.key("attn_logit_softcapping") +
                                                 "' is set; lumi has no softcap on attention"};
    }
    return {};
}

Result<SamplingDefaults> read_sampling(const GgufFile & file) {
    const HyperParameters keys(file, "general.sampling");
    SamplingDefaults out;
    out.temperature = LUMI_TRY(keys.number("temp", 0.0F, 100.0F, out.temperature));
    out.top_k = LUMI_TRY(keys.integer("top_k", 0, kMaxVocabulary, out.top_k));
    out.top_p = LUMI_TRY(keys.number("top_p", 0.0F, 1.0F, out.top_p));
    out.min_p = LUMI_TRY(keys.number("min_p", 0.0F, 1.0F, out.min_p));
    return out;
}

}  // namespace

const char * arch_name(Arch arch) {
    for (const ArchRow & row : kArchs) {
        if (row.arch == arch) {
            return row.name;
        }
    }
    return "unknown";
}

Result<Config> read_config(const GgufFile & file) {
    LUMI_TRY(check_is_model(file));
    const ArchRow * row = LUMI_TRY(find_arch(file));
    const HyperParameters keys(file, row->name);
    if (!keys.has("block_count") && file.tensors().empty()) {
        return Error{ErrorKind::invalid_file,
                     file.path() + ": not a usable model: it has no blocks and no tensors"};
    }
    Config config;
    config.arch = row->arch;
    config.name = file.has("general.name") ? std::string(LUMI_TRY(file.get_string("general.name")))
                                           : std::filesystem::path(file.path()).stem().string();
    config.n_layer = LUMI_TRY(keys.integer("block_count", 1, kMaxLayers));
    config.n_embd = LUMI_TRY(keys.integer("embedding_length", 1, kMaxWidth));
    config.n_ctx_train = LUMI_TRY(keys.integer("context_length", 1, kMaxContext));
    config.eps = LUMI_TRY(keys.number("attention.layer_norm_rms_epsilon", 1e-12F, 0.1F));
    config.embedding_scale = std::sqrt(static_cast<float>(config.n_embd));
    config.n_vocab = LUMI_TRY(read_vocabulary_size(file));
    config.sampling = LUMI_TRY(read_sampling(file));
    LUMI_TRY(read_layers(keys, config));
    LUMI_TRY(refuse_attention_softcap(keys));
    LUMI_TRY(row->read(keys, config));
    return config;
}

int Config::last_kv_layer() const {
    int last = 0;
    for (int il = 0; il < n_layer; ++il) {
        last = layers[static_cast<size_t>(il)].has_kv ? il : last;
    }
    return last;
}

int Config::n_kv_layers() const {
    return static_cast<int>(std::count_if(layers.begin(), layers.end(),
                                          [](const LayerConfig & l) { return l.has_kv; }));
}

uint64_t Config::kv_bytes_per_token(bool swa, double bytes) const {
    double sum = 0;
    for (const LayerConfig & layer : layers) {
        if (layer.has_kv && layer.is_swa == swa) {
            sum += 2.0 * layer.n_kv() * bytes;
        }
    }
    return static_cast<uint64_t>(sum);
}

}  // namespace lumi
