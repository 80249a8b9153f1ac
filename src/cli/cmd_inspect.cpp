// lumi inspect: what is in a GGUF file, models and adapters, without loading it.
#include "cli/command.h"
#include "cli/inspect_adapter.h"

#include "base/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>

namespace lumi {

using nlohmann::json;

namespace {

struct InspectFlags {
    std::string file;
    bool json = false;
    bool tensors = false;
    bool keys = false;
    int n_ctx = 4096;  // as `lumi run` has it; a model's own context may be smaller
};

struct Sum {
    uint64_t count = 0;
    uint64_t elements = 0;
    uint64_t bytes = 0;
    void add(const TensorInfo & t) {
        ++count;
        elements += static_cast<uint64_t>(t.ne[0] * t.ne[1] * t.ne[2] * t.ne[3]);
        bytes += t.n_bytes;
    }
};

// The part of the model a tensor belongs to: "attention", "feed forward", ...
std::string group_of(const std::string & name) {
    const auto has = [&name](const char * part) { return name.find(part) != std::string::npos; };
    if (name.rfind("v.", 0) == 0 || name.rfind("a.", 0) == 0 || name.rfind("mm.", 0) == 0) {
        return "vision and audio";
    }
    if (has("norm") || has("output_scale") || has("rope_freqs")) {
        return "norms and scales";
    }
    if (has("per_layer") || has("inp_gate") || has(".proj.")) {
        return "per-layer embeddings";
    }
    if (name.rfind("token_embd", 0) == 0 || name.rfind("output", 0) == 0) {
        return "embedding and head";
    }
    return has("attn_") ? "attention" : has("ffn_") ? "feed forward" : "other";
}

struct Summary {
    Sum total;
    std::map<std::string, Sum> by_type;
    std::map<std::string, Sum> by_group;
};

Summary summarize(const GgufFile & file) {
    Summary summary;
    for (const TensorInfo & tensor : file.tensors()) {
        summary.total.add(tensor);
        summary.by_type[ggml_type_name(tensor.type)].add(tensor);
        summary.by_group[group_of(tensor.name)].add(tensor);
    }
    return summary;
}

std::string shape_text(const TensorInfo & tensor) {
    std::string text = "[";
    for (int i = 0; i < tensor.n_dims; ++i) {
        text += (i > 0 ? ", " : "") + std::to_string(tensor.ne[i]);
    }
    return text + "]";
}

json sums_json(const std::map<std::string, Sum> & sums) {
    json out = json::object();
    for (const auto & [name, sum] : sums) {
        out[name] = {{"tensors", sum.count}, {"elements", sum.elements}, {"bytes", sum.bytes}};
    }
    return out;
}

// KV bytes and weights of a context, from the config alone: nothing is loaded.
MemoryPlan context_plan(const GgufFile & file, const Config & config, const Summary & summary,
                        int n_ctx) {
    constexpr double kF16Bytes = 2.0;
    constexpr int kBatch = 512;
    MemoryPlan plan;
    plan.add("weights, " + file.path(), summary.total.bytes, true);
    const int swa_cells = std::min(n_ctx, config.window + kBatch);
    plan.add("KV cache of global layers, " + std::to_string(n_ctx) + " tokens, f16",
             config.kv_bytes_per_token(false, kF16Bytes) * static_cast<uint64_t>(n_ctx));
    plan.add("KV cache of sliding layers, " + std::to_string(swa_cells) + " tokens, f16",
             config.kv_bytes_per_token(true, kF16Bytes) * static_cast<uint64_t>(swa_cells));
    return plan;
}

json config_json(const Config & config) {
    return {{"architecture", arch_name(config.arch)},
            {"name", config.name},
            {"layers", config.n_layer},
            {"layers_with_kv", config.n_kv_layers()},
            {"embedding", config.n_embd},
            {"vocabulary", config.n_vocab},
            {"context", config.n_ctx_train},
            {"window", config.window},
            {"per_layer_embedding", config.n_ple},
            {"softcap", config.softcap},
            {"kv_bytes_per_1k_tokens_f16",
             (config.kv_bytes_per_token(false, 2.0) + config.kv_bytes_per_token(true, 2.0)) * 1000},
            {"kv_bytes_per_1k_tokens_f16_global", config.kv_bytes_per_token(false, 2.0) * 1000}};
}

void print_sums(const char * title, const std::map<std::string, Sum> & sums) {
    std::printf("%s\n", title);
    for (const auto & [name, sum] : sums) {
        std::printf("  %-22s %6llu tensors %14llu weights %12s\n", name.c_str(),
                    static_cast<unsigned long long>(sum.count),
                    static_cast<unsigned long long>(sum.elements), bytes_text(sum.bytes).c_str());
    }
}

void print_tensors(const GgufFile & file) {
    for (const TensorInfo & tensor : file.tensors()) {
        std::printf("  %-40s %-6s %-22s %12llu bytes at %llu\n", tensor.name.c_str(),
                    ggml_type_name(tensor.type), shape_text(tensor).c_str(),
                    static_cast<unsigned long long>(tensor.n_bytes),
                    static_cast<unsigned long long>(tensor.offset));
    }
}

void print_text(const GgufFile & file, const Config * config, const std::string & config_error,
                const InspectFlags & flags) {
    const Summary summary = summarize(file);
    std::printf("%s: GGUF v%u, %zu keys, %zu tensors, %llu weights, %s\n", file.path().c_str(),
                file.version(), file.keys().size(), file.tensors().size(),
                static_cast<unsigned long long>(summary.total.elements),
                bytes_text(summary.total.bytes).c_str());
    if (config != nullptr) {
        const json facts = config_json(*config);
        for (const auto & [key, value] : facts.items()) {
            std::printf("  %-34s %s\n", key.c_str(), value.dump().c_str());
        }
        std::printf(
            "memory for a context of %d tokens, without work buffers and, on the CPU, a copy of "
            "the weights\nrepacked for speed where memory has room (--no-repack: none)\n%s",
            flags.n_ctx, context_plan(file, *config, summary, flags.n_ctx).text().c_str());
    } else if (!config_error.empty()) {
        std::printf("  not a model lumi can run: %s\n", config_error.c_str());
    }
    for (const auto & [name, value] : adapter_facts(file)) {
        std::printf("  %-34s %s\n", name.c_str(), utf8_sanitized(value).c_str());
    }
    print_sums("by type", summary.by_type);
    print_sums("by part", summary.by_group);
    if (flags.keys || config == nullptr) {
        std::printf("keys\n");
        for (const std::string_view key : file.keys()) {
            std::printf("  %-44.*s %s\n", static_cast<int>(key.size()), key.data(),
                        file.value_text(key).c_str());
        }
    }
    if (flags.tensors) {
        std::printf("tensors\n");
        print_tensors(file);
    }
}

void print_json(const GgufFile & file, const Config * config, const std::string & config_error,
                const InspectFlags & flags) {
    const Summary summary = summarize(file);
    json out = {{"path", file.path()},
                {"version", file.version()},
                {"fingerprint", file.fingerprint()},
                {"weights", summary.total.elements},
                {"bytes", summary.total.bytes},
                {"by_type", sums_json(summary.by_type)},
                {"by_part", sums_json(summary.by_group)}};
    for (const std::string_view key : file.keys()) {
        out["keys"][std::string(key)] = file.value_text(key);
    }
    if (config != nullptr) {
        out["config"] = config_json(*config);
        const MemoryPlan plan = context_plan(file, *config, summary, flags.n_ctx);
        out["memory"] = {{"n_ctx", flags.n_ctx},
                         {"mapped", plan.mapped_bytes()},
                         {"anonymous", plan.anonymous_bytes()}};
    } else if (!config_error.empty()) {
        out["config_error"] = config_error;
    }
    for (const auto & [name, value] : adapter_facts(file)) {
        out["adapter"][name] = value;
    }
    if (flags.tensors) {
        for (const TensorInfo & t : file.tensors()) {
            out["tensors"].push_back({{"name", t.name},
                                      {"type", ggml_type_name(t.type)},
                                      {"bytes", t.n_bytes},
                                      {"offset", t.offset},
                                      {"shape", std::vector<int64_t>(t.ne, t.ne + t.n_dims)}});
        }
    }
    std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

Status run(InspectFlags & flags) {
    const GgufFile file = LUMI_TRY(GgufFile::open(flags.file));
    std::optional<Config> config;
    std::string config_error;
    const Result<std::string_view> type = file.get_string("general.type");
    if (!type.ok() || *type != "adapter") {
        Result<Config> read = read_config(file);
        if (read.ok()) {
            config = std::move(*read);
        } else {
            config_error = read.error().message;
        }
    }
    if (config) {
        flags.n_ctx = std::min(flags.n_ctx, config->n_ctx_train);
    }
    (flags.json ? print_json : print_text)(file, config ? &*config : nullptr, config_error, flags);
    return {};
}

}  // namespace

void declare_inspect(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<InspectFlags>();
    CLI::App * command =
        add_command(app, "inspect", "what is in a GGUF file: architecture, sizes, memory",
                    "  lumi inspect model.gguf\n  lumi inspect adapter.gguf --tensors\n"
                    "  lumi inspect model.gguf --json -c 32768");
    command->add_option("file", flags->file, "GGUF model or adapter")->required();
    command->add_flag("--json", flags->json, "one JSON object");
    command->add_flag("--tensors", flags->tensors, "list every tensor");
    command->add_flag("--keys", flags->keys, "list every metadata key");
    command->add_option("-c,--ctx-size", flags->n_ctx, "tokens of context for the memory plan")
        ->capture_default_str()
        ->check(CLI::Range(1, 1 << 24));
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
