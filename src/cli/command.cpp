// The flags that subcommands share and how they become options.
#include "cli/command.h"

#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/embedded_model.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace lumi {

namespace {

std::shared_ptr<CancelToken> signal_token;
std::atomic<int> signals_seen{0};

void on_signal(int) {
    if (signals_seen.fetch_add(1) > 0) {
        std::_Exit(kExitInterrupted);
    }
    if (signal_token) {
        signal_token->cancel();
    }
}

}  // namespace

CLI::App * add_command(CLI::App & app, const char * name, const char * what,
                       const char * examples) {
    CLI::App * command = app.add_subcommand(name, what);
    command->footer(std::string("\nExamples:\n") + examples);
    return command;
}

int exit_code_of(const Status & status) {
    if (status.ok()) {
        return 0;
    }
    std::fprintf(stderr, "lumi: error: %s\n", status.error().message.c_str());
    return kExitFailure;
}

void ModelFlags::declare_path(CLI::App & command) {
    command.add_option("-m,--model,model", path,
                       "GGUF file (default: the small model inside lumi)");
}

void ModelFlags::declare(CLI::App & command) {
    declare_device(command);
    command.add_flag_callback(
        "--no-repack", [this] { options.repack = false; },
        "do not keep a repacked copy of the weights (slower, less memory)");
}

void ModelFlags::declare_for_training(CLI::App & command) {
    declare_device(command);
    options.repack = false;
}

void ModelFlags::declare_device(CLI::App & command) {
    declare_path(command);
    command.add_option("--device", options.device, "auto, cpu, or a name from `lumi devices`")
        ->capture_default_str();
    command
        .add_option("-t,--threads", options.n_threads,
                    "CPU threads (0 = physical cores; one for tiny models)")
        ->check(CLI::Range(0, kMaxThreads));
    command
        .add_option("--gpu-layers,--n-gpu-layers", gpu_layers, "layers on the GPU: auto, all or 0")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "all"}) | CLI::Range(0, 10000));
}

Result<GgufFile> ModelFlags::open() const {
    return path.empty() ? GgufFile::from_bytes(embedded_model(), "the embedded model")
                        : GgufFile::open(path);
}

Result<LoadedModel> ModelFlags::load() const {
    GgufFile file = LUMI_TRY(open());
    LUMI_TRY(load_backends());
    ModelOptions resolved = options;
    if (gpu_layers == "0") {
        resolved.device = "cpu";
    }
    LoadedModel loaded = LUMI_TRY(load_model(std::move(file), resolved));
    const int n_layer = loaded.model->config().n_layer;
    if (gpu_layers != "auto" && gpu_layers != "all" && gpu_layers != "0" &&
        std::atoi(gpu_layers.c_str()) < n_layer) {
        return Error{ErrorKind::unsupported,
                     "--gpu-layers: found " + gpu_layers +
                         "; a model is either wholly on the GPU or wholly on "
                         "the CPU, a split is not supported yet; allowed: 0, all, or " +
                         std::to_string(n_layer) + " and more"};
    }
    return loaded;
}

void ContextFlags::declare(CLI::App & command) {
    command
        .add_option("-c,--ctx-size", options.n_ctx,
                    "tokens a conversation can hold (0 = the model's own)")
        ->capture_default_str()
        ->check(CLI::Range(0, 1 << 24));
    command.add_option("-b,--batch", options.n_batch, "tokens of one prefill chunk")
        ->capture_default_str()
        ->check(CLI::Range(1, 8192));
    command.add_option("--kv", kv, "KV cache type")
        ->capture_default_str()
        ->check(CLI::IsMember({"f16", "f32", "q8_0"}));
    command.add_option("--flash", flash, "flash attention")
        ->capture_default_str()
        ->check(CLI::IsMember({"auto", "on", "off"}));
    command.add_flag("--exact", options.exact,
                     "ggml's own products and plain attention, for comparisons");
}

Result<SessionOptions> ContextFlags::resolve(const Config & config) const {
    SessionOptions resolved = options;
    resolved.n_ctx =
        options.n_ctx == 0 ? config.n_ctx_train : std::min(options.n_ctx, config.n_ctx_train);
    resolved.kv_type = kv == "f32" ? KvType::f32 : kv == "q8_0" ? KvType::q8_0 : KvType::f16;
    resolved.flash = flash == "on"    ? FlashMode::on
                     : flash == "off" ? FlashMode::off
                                      : FlashMode::automatic;
    return resolved;
}

void SamplingFlags::declare(CLI::App & app) {
    command = &app;
    SamplerOptions & s = options.sampler;
    app.add_option("-n,--n-predict", options.max_tokens,
                   "most tokens to generate (-1 = until the context is full)")
        ->capture_default_str()
        ->check(CLI::Range(-1, 1 << 30));
    app.add_option("--temp", s.temperature, "temperature, 0 = greedy (default: the model's)")
        ->check(CLI::Range(0.0, 100.0));
    app.add_option("--top-k", s.top_k, "keep the k best tokens, 0 = off (default: the model's)")
        ->check(CLI::Range(0, 1 << 30));
    app.add_option("--top-p", s.top_p, "nucleus (default: the model's)")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--min-p", s.min_p, "drop tokens below this share of the best")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--repeat-penalty", s.repeat_penalty, "1 = off")->check(CLI::Range(0.01, 10.0));
    app.add_option("-s,--seed", s.seed, "seed of the sampler")
        ->capture_default_str()
        ->check(seed_range());
    app.add_option("--stop", options.stops, "text that ends the answer (may be repeated)");
}

GenerationOptions SamplingFlags::resolve(const LoadedModel & loaded) const {
    GenerationOptions resolved = options;
    resolved.sampler = default_sampler(loaded);
    const auto take = [this](const char * flag, auto & into, const auto & value) {
        if (command->count(flag) > 0) {
            into = value;
        }
    };
    take("--temp", resolved.sampler.temperature, options.sampler.temperature);
    take("--top-k", resolved.sampler.top_k, options.sampler.top_k);
    take("--top-p", resolved.sampler.top_p, options.sampler.top_p);
    take("--min-p", resolved.sampler.min_p, options.sampler.min_p);
    resolved.sampler.repeat_penalty = options.sampler.repeat_penalty;
    resolved.sampler.seed = options.sampler.seed;
    return resolved;
}

void AdapterFlag::declare(CLI::App & command) {
    command.add_option("--adapter,--lora", text, "LoRA adapter FILE[:SCALE] in GGUF");
}

Result<AdapterFlag::Loaded> AdapterFlag::load(const Model & model) const {
    Loaded loaded;
    std::string path = text;
    const size_t colon = text.rfind(':');
    if (colon != std::string::npos && colon + 1 < text.size()) {
        char * end = nullptr;
        const float scale = std::strtof(text.c_str() + colon + 1, &end);
        if (*end == '\0') {
            if (!(scale >= -100.0F && scale <= 100.0F)) {
                return Error{ErrorKind::invalid_argument, "--adapter: found scale " +
                                                              text.substr(colon + 1) +
                                                              "; allowed: -100 to 100"};
            }
            loaded.scale = scale;
            path = text.substr(0, colon);
        }
    }
    const GgufFile file = LUMI_TRY(GgufFile::open(path));
    loaded.data = LUMI_TRY(load_adapter(file, model.config(), model.file().fingerprint()));
    log(LogLevel::info, "adapter " + quoted(path, 1024) + ": " +
                            std::to_string(2 * loaded.data.pairs.size()) + " tensors, " +
                            targets_text(loaded.data) + ", rank " + rank_text(loaded.data));
    return loaded;
}

CLI::Validator seed_range() {
    const auto check = [](const std::string & text) -> std::string {
        uint64_t value = 0;
        const char * end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && stop == end
                   ? ""
                   : "found " + quoted(text, 32) +
                         "; allowed: a whole number from 0 to 18446744073709551615";
    };
    return {check, "0 to 2^64-1"};
}

Status check_output(const std::string & output, const std::vector<std::string> & inputs) {
    for (const std::string & input : inputs) {
        std::error_code missing;
        // The names too: two outputs may not exist yet.
        if (!input.empty() && (std::filesystem::equivalent(output, input, missing) ||
                               std::filesystem::weakly_canonical(output, missing) ==
                                   std::filesystem::weakly_canonical(input, missing))) {
            return Error{ErrorKind::invalid_argument,
                         "the output " + quoted(output, 1024) + " is also given as " +
                             quoted(input, 1024) + "; allowed: a file of its own"};
        }
    }
    LUMI_TRY(AtomicFile::create(output));  // dropped uncommitted: leaves nothing behind
    return {};
}

Result<std::unique_ptr<Engine>> start_engine(LoadedModel loaded, const SessionOptions & options,
                                             const AdapterFlag & adapter) {
    std::optional<AdapterFlag::Loaded> published;
    if (adapter.given()) {
        published = LUMI_TRY(adapter.load(*loaded.model));
    }
    std::unique_ptr<Engine> engine = LUMI_TRY(start_engine(std::move(loaded), options));
    if (published) {
        LUMI_TRY(engine->load_memory(std::move(published->data), published->scale).get());
    }
    return engine;
}

std::shared_ptr<CancelToken> cancel_on_signal() {
    signal_token = std::make_shared<CancelToken>();
    signals_seen = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    return signal_token;
}

}  // namespace lumi
