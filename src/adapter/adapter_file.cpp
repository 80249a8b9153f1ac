// Adapters as files: llama.cpp's GGUF layout, plus lumi.* strings that other programs ignore.
// A file is hostile until every line of it is checked (cases/training.md L14, L41).
#include "adapter/adapter.h"

#include "base/log.h"
#include "base/utf8.h"
#include "gguf/gguf_writer.h"

#include <cmath>
#include <cstring>
#include <tuple>

namespace lumi {

namespace {

constexpr std::string_view kRecordPrefix = "lumi.";
constexpr std::string_view kFingerprintKey = "lumi.base_fingerprint";
// The two keys by which converters name the base.
constexpr const char * kBaseCountKey = "general.base_model.count";
constexpr const char * kBaseNameKey = "general.base_model.0.name";
constexpr std::string_view kSuffixA = ".lora_a";
constexpr std::string_view kSuffixB = ".lora_b";

Error bad_file(const GgufFile & file, const std::string & what,
               ErrorKind kind = ErrorKind::invalid_file) {
    return {kind, "adapter " + quoted(file.path(), 1024) + ": " + what};
}

std::string shape_text(int64_t a, int64_t b) {
    return "[" + std::to_string(a) + ", " + std::to_string(b) + "]";
}

// A key that must be a string with one value.
Status check_string(const GgufFile & file, const char * key, std::string_view wanted,
                    const std::string & meaning) {
    if (!file.has(key)) {
        return bad_file(file, std::string(key) + " is missing, expected " + quoted(wanted) + "; " +
                                  meaning);
    }
    const std::string_view found = LUMI_TRY(file.get_string(key));
    if (found != wanted) {
        return bad_file(file, std::string(key) + " is " + quoted(found) + ", expected " +
                                  quoted(wanted) + "; " + meaning);
    }
    return {};
}

Result<float> read_alpha(const GgufFile & file) {
    const char * key = "adapter.lora.alpha";
    // Other programs read "no scaling" or "scale zero" into a missing alpha; neither is safe to
    // guess.
    if (!file.has(key)) {
        return bad_file(file, std::string(key) + " is missing; it must be a number above 0");
    }
    const float alpha = LUMI_TRY(file.get_f32(key));
    if (!std::isfinite(alpha) || alpha <= 0.0F) {
        return bad_file(file, std::string(key) + " is " + std::to_string(alpha) +
                                  ", allowed are finite numbers above 0");
    }
    return alpha;
}

struct TensorPair {
    const TensorInfo * a = nullptr;
    const TensorInfo * b = nullptr;
};
// By layer, then module: the order AdapterData keeps.
using TensorPairs = std::map<std::pair<int, Module>, TensorPair>;

Result<TensorPairs> collect_pairs(const GgufFile & file, const Config & config) {
    TensorPairs pairs;
    for (const TensorInfo & tensor : file.tensors()) {
        const std::string_view name = tensor.name;
        const bool is_a = name.ends_with(kSuffixA);
        if (!is_a && !name.ends_with(kSuffixB)) {
            return bad_file(file,
                            "tensor " + quoted(name) +
                                " is neither a .lora_a nor a .lora_b; only those are allowed");
        }
        int layer = 0;
        Module module = Module::q;
        const std::string_view weight = name.substr(0, name.size() - kSuffixA.size());
        if (!parse_module_weight_name(weight, layer, module) || layer >= config.n_layer ||
            !module_shape(config, layer, module).exists()) {
            return bad_file(file, "tensor " + quoted(name) + " adapts " + quoted(weight) +
                                      ", which lumi cannot adapt or this model does not have (" +
                                      std::to_string(config.n_layer) + " layers)");
        }
        TensorPair & pair = pairs[{layer, module}];
        (is_a ? pair.a : pair.b) = &tensor;
    }
    if (pairs.empty()) {
        return bad_file(file, "no tensor pairs in it");
    }
    return pairs;
}

Status check_shapes(const GgufFile & file, const TensorPair & pair, ModuleShape shape,
                    const std::string & weight) {
    if (pair.a == nullptr || pair.b == nullptr) {
        const bool lacks_a = pair.a == nullptr;
        return bad_file(file, weight + " has a " + (lacks_a ? ".lora_b" : ".lora_a") + " but no " +
                                  (lacks_a ? ".lora_a" : ".lora_b"));
    }
    const int64_t * a = pair.a->ne;
    const int64_t * b = pair.b->ne;
    if (pair.a->n_dims > 2 || pair.b->n_dims > 2 || a[0] != shape.n_in || b[1] != shape.n_out) {
        return bad_file(file, weight + ": lora_a is " + shape_text(a[0], a[1]) + " and lora_b " +
                                  shape_text(b[0], b[1]) + ", expected [" +
                                  std::to_string(shape.n_in) + ", rank] and [rank, " +
                                  std::to_string(shape.n_out) + "]");
    }
    if (a[1] != b[0] || a[1] < 1 || a[1] > largest_rank(shape)) {
        return bad_file(file, weight + ": rank is " + std::to_string(a[1]) + " in lora_a and " +
                                  std::to_string(b[0]) +
                                  " in lora_b; they must be equal, from 1 to " +
                                  std::to_string(largest_rank(shape)));
    }
    return {};
}

Result<std::vector<float>> read_floats(const GgufFile & file, const TensorInfo & tensor) {
    const std::span<const std::byte> bytes = file.tensor_data(tensor);
    std::vector<float> out(static_cast<size_t>(tensor.ne[0] * tensor.ne[1]));
    switch (tensor.type) {
    case GGML_TYPE_F32:
        std::memcpy(out.data(), bytes.data(), bytes.size());
        break;
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_Q8_0:
        ggml_get_type_traits(tensor.type)
            ->to_float(bytes.data(), out.data(), static_cast<int64_t>(out.size()));
        break;
    default:
        return bad_file(file,
                        tensor.name + " has type " + ggml_type_name(tensor.type) +
                            "; adapters may be F32, F16, BF16 or Q8_0",
                        ErrorKind::unsupported);
    }
    return out;
}

void read_record(const GgufFile & file, AdapterData & adapter) {
    const auto base_name = file.get_string(kBaseNameKey);
    adapter.base_name = base_name.ok() ? *base_name : std::string_view();
    for (const std::string_view key : file.keys()) {
        const auto value = file.get_string(key);
        if (!key.starts_with(kRecordPrefix) || !value.ok()) {
            continue;
        }
        if (key == kFingerprintKey) {
            adapter.base_fingerprint = *value;
        } else {
            adapter.record[std::string(key.substr(kRecordPrefix.size()))] = *value;
        }
    }
}

void warn_about_base(const GgufFile & file, const AdapterData & adapter,
                     const std::string & base_fingerprint) {
    if (base_fingerprint.empty() || adapter.base_fingerprint == base_fingerprint) {
        return;
    }
    log(LogLevel::warning, bad_file(file, adapter.base_fingerprint.empty()
                                              ? "does not say which base model it was trained on"
                                              : "was trained on another base model file")
                               .message);
}

}  // namespace

Result<AdapterData> load_adapter(const GgufFile & file, const Config & config,
                                 const std::string & base_fingerprint) {
    LUMI_TRY(check_string(file, "general.type", "adapter", "this file is not an adapter"));
    LUMI_TRY(check_string(file, "adapter.type", "lora", "only LoRA adapters can be loaded"));
    LUMI_TRY(check_string(file, "general.architecture", arch_name(config.arch),
                          "the adapter must be of the base model's architecture"));
    if (file.has("adapter.alora.invocation_tokens")) {
        return bad_file(file,
                        "is an activated LoRA (adapter.alora.invocation_tokens), which is "
                        "not supported; ordinary LoRA adapters are",
                        ErrorKind::unsupported);
    }
    AdapterData adapter;
    adapter.alpha = LUMI_TRY(read_alpha(file));
    const TensorPairs pairs = LUMI_TRY(collect_pairs(file, config));
    int dropped = 0;
    for (const auto & [where, tensors] : pairs) {
        const auto [layer, module] = where;
        const ModuleShape shape = module_shape(config, layer, module);
        LUMI_TRY(check_shapes(file, tensors, shape, module_weight_name(layer, module)));
        LoraMatrixPair pair{layer, module, shape.n_in, shape.n_out, 0, {}, {}};
        pair.rank = static_cast<int>(tensors.a->ne[1]);
        pair.a = LUMI_TRY(read_floats(file, *tensors.a));
        pair.b = LUMI_TRY(read_floats(file, *tensors.b));
        if (module_is_live(config, layer, module)) {
            adapter.pairs.push_back(std::move(pair));
        } else {
            ++dropped;  // K and V of a layer that reads another layer's: nothing would use them
        }
    }
    if (dropped > 0) {
        log(LogLevel::warning,
            bad_file(file, std::to_string(dropped) +
                               " pairs adapt K or V of layers that share another layer's; dropped")
                .message);
    }
    if (adapter.pairs.empty()) {
        return bad_file(file,
                        "every pair in it adapts K or V of layers that share another layer's");
    }
    const Status finite = adapter.check_finite();
    if (!finite.ok()) {
        return bad_file(file, finite.error().message);
    }
    read_record(file, adapter);
    warn_about_base(file, adapter, base_fingerprint);
    return adapter;
}

Status save_adapter(const AdapterData & adapter, const Config & config, const std::string & path) {
    LUMI_TRY(adapter.check_finite());
    if (!std::isfinite(adapter.alpha) || adapter.alpha <= 0.0F || adapter.pairs.empty()) {
        return Error{ErrorKind::numeric, "adapter not saved: it has " +
                                             std::to_string(adapter.pairs.size()) +
                                             " pairs and alpha " + std::to_string(adapter.alpha)};
    }
    GgufWriter writer;
    writer.set_string("general.type", "adapter");
    writer.set_string("general.architecture", arch_name(config.arch));
    writer.set_string("adapter.type", "lora");
    writer.set_f32("adapter.lora.alpha", adapter.alpha);
    if (!adapter.base_name.empty()) {
        writer.set_u32(kBaseCountKey, 1);
        writer.set_string(kBaseNameKey, adapter.base_name);
    }
    if (!adapter.base_fingerprint.empty()) {
        writer.set_string(std::string(kFingerprintKey), adapter.base_fingerprint);
    }
    for (const auto & [key, value] : adapter.record) {
        writer.set_string(std::string(kRecordPrefix) + key, value);
    }
    for (const LoraMatrixPair & pair : adapter.pairs) {
        const std::string weight = module_weight_name(pair.layer, pair.module);
        const int64_t ne_a[2] = {pair.n_in, pair.rank};
        const int64_t ne_b[2] = {pair.rank, pair.n_out};
        writer.add_tensor(weight + std::string(kSuffixA), GGML_TYPE_F32, ne_a,
                          std::as_bytes(std::span(pair.a)));
        writer.add_tensor(weight + std::string(kSuffixB), GGML_TYPE_F32, ne_b,
                          std::as_bytes(std::span(pair.b)));
    }
    return writer.write(path);
}

}  // namespace lumi
