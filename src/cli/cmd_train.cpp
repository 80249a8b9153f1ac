// lumi train: fits a LoRA adapter to a dataset and writes it as GGUF.
#include "cli/command.h"
#include "cli/progress.h"

#include <cmath>
#include <cstdio>

namespace lumi {

namespace {

constexpr uint64_t kMaxDatasetBytes = uint64_t{4} << 30U;

struct TrainFlags {
    ModelFlags model;
    TrainOptions options;
    std::string data;
    std::string validation_file;
    std::string output;
    std::string targets = "all";
    std::string layers;
    std::string schedule = "cosine";
    std::string init;
    double validation_share = 0.05;
    bool all_tokens = false;
    bool json = false;
};

LrSchedule schedule_from(const std::string & name) {
    return name == "constant" ? LrSchedule::constant
           : name == "linear" ? LrSchedule::linear
                              : LrSchedule::cosine;
}

Result<Dataset> read_dataset(const std::string & path, const LoadedModel & loaded,
                             const TrainFlags & flags) {
    if (!loaded.chat) {
        return Error{ErrorKind::unsupported, "this model has no chat format: " + loaded.chat_error};
    }
    const std::string text = LUMI_TRY(read_text_file(path, kMaxDatasetBytes));
    DatasetOptions options;
    options.max_tokens = flags.options.window_tokens;
    options.assistant_only = !flags.all_tokens;
    Result<Dataset> dataset = parse_dataset(text, *loaded.chat, *loaded.tokenizer, options);
    if (!dataset.ok()) {
        return dataset.error().within(path);
    }
    return dataset;
}

void describe(const char * what, const Dataset & d) {
    std::fprintf(stderr, "%s: %s, %zu samples, %llu tokens, %llu of them targets", what,
                 d.format.c_str(), d.samples.size(), static_cast<unsigned long long>(d.n_tokens()),
                 static_cast<unsigned long long>(d.n_targets()));
    if (d.split_samples > 0) {
        std::fprintf(stderr, ", %d longer than the window and cut", d.split_samples);
    }
    if (d.skipped_samples > 0) {
        std::fprintf(stderr, ", %d without a target left out", d.skipped_samples);
    }
    std::fprintf(stderr, "\n");
}

Status apply_layers(const std::string & text, const Config & config, TargetSet & targets) {
    if (text.empty()) {
        return {};
    }
    int first = -1;
    int last = -1;
    char rest = 0;
    const int n = std::sscanf(text.c_str(), "%d-%d%c", &first, &last, &rest);
    if (n != 2 || first < 0 || last < first || last >= config.n_layer) {
        return Error{ErrorKind::invalid_argument, "--layers: found " + text +
                                                      "; allowed: A-B with 0 <= A <= B <= " +
                                                      std::to_string(config.n_layer - 1)};
    }
    targets.first_layer = first;
    targets.last_layer = last;
    return {};
}

int longest(const Dataset & dataset) {
    size_t tokens = 0;
    for (const Sample & s : dataset.samples) {
        tokens = std::max(tokens, s.tokens.size());
    }
    return static_cast<int>(tokens);
}

int most_targets(const Dataset & dataset) {
    int targets = 0;
    for (const Sample & s : dataset.samples) {
        targets = std::max(targets, s.n_targets());
    }
    return targets;
}

// Runs to the end or to the first signal; a signal finishes the step under way.
Status train(Trainer & trainer, const TrainFlags & flags) {
    TrainReporter reporter(progress_style(flags.json));
    const std::shared_ptr<CancelToken> cancel = cancel_on_signal();
    bool asked = false;
    while (!trainer.done()) {
        if (cancel->cancelled() && !asked) {
            reporter.finish();
            std::fprintf(stderr, "finishing the step, then saving\n");
            trainer.request_stop();
            asked = true;
        }
        const TrainProgress progress = LUMI_TRY(trainer.advance());
        reporter.report(progress);
    }
    reporter.finish();
    return {};
}

Status save(const Trainer & trainer, const Config & config, const TrainFlags & flags) {
    const AdapterData adapter = LUMI_TRY(trainer.adapter());
    LUMI_TRY(save_adapter(adapter, config, flags.output));
    const TrainSummary & s = trainer.summary();
    std::fprintf(
        stderr, "%d steps, %llu tokens in %s (%.0f tokens/s); adapter of %zu tensors saved to %s\n",
        s.steps, static_cast<unsigned long long>(s.tokens), duration_text(s.seconds).c_str(),
        s.seconds > 0 ? static_cast<double>(s.tokens) / s.seconds : 0.0, adapter.pairs.size() * 2,
        flags.output.c_str());
    if (!s.stopped_because.empty()) {
        std::fprintf(stderr, "stopped early: %s\n", s.stopped_because.c_str());
    }
    return {};
}

Status run(TrainFlags & flags) {
    flags.options.schedule = schedule_from(flags.schedule);
    LUMI_TRY(flags.options.check());
    LUMI_TRY(check_output(flags.output, {flags.model.path, flags.data, flags.validation_file}));
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    const Config & config = loaded.model->config();
    flags.options.targets = LUMI_TRY(parse_targets(flags.targets, config));
    LUMI_TRY(apply_layers(flags.layers, config, flags.options.targets));
    Dataset data = LUMI_TRY(read_dataset(flags.data, loaded, flags));
    Dataset validation;
    if (!flags.validation_file.empty()) {
        validation = LUMI_TRY(read_dataset(flags.validation_file, loaded, flags));
    } else if (flags.validation_share > 0) {
        validation = split_validation(data, flags.validation_share, flags.options.seed);
    }
    describe("training", data);
    if (!validation.samples.empty()) {
        describe("validation", validation);
    }
    std::optional<AdapterData> init;
    if (!flags.init.empty()) {
        const GgufFile file = LUMI_TRY(GgufFile::open(flags.init));
        init = LUMI_TRY(load_adapter(file, config, loaded.model->file().fingerprint()));
    }
    const MemoryPlan plan =
        LUMI_TRY(Trainer::plan(*loaded.model, flags.options, longest(data), most_targets(data)));
    std::fprintf(stderr, "%s", plan.text().c_str());
    const std::unique_ptr<Trainer> trainer =
        LUMI_TRY(Trainer::create(*loaded.model, std::move(data), std::move(validation),
                                 flags.options, init ? &*init : nullptr));
    const Status trained = train(*trainer, flags);
    if (!trained.ok() && trainer->summary().steps == 0) {
        return trained;
    }
    LUMI_TRY(save(*trainer, config, flags));
    return trained;
}

}  // namespace

void declare_train(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<TrainFlags>();
    CLI::App * command = add_command(
        app, "train", "fit a LoRA adapter to your chats or text",
        "  lumi train model.gguf chats.jsonl -o lesson.gguf\n"
        "  lumi train model.gguf notes.txt -o notes.gguf --epochs 4 --rank 8 --lr 2e-4");
    TrainOptions & o = flags->options;
    flags->model.declare(*command);
    command->get_option("--model")->required()->description("GGUF file");
    command
        ->add_option("data", flags->data,
                     "JSONL with messages, prompt/completion or text; or plain text")
        ->required();
    command->add_option("-o,--output", flags->output, "adapter file to write")->required();
    command->add_option("--epochs", o.epochs, "times through the data")
        ->capture_default_str()
        ->check(CLI::Range(1, 100000));
    command
        ->add_option("--max-steps", o.max_steps, "stop after this many steps (0 = epochs decide)")
        ->check(CLI::Range(0, 1 << 30));
    command->add_option("--rank", o.rank, "LoRA rank")
        ->capture_default_str()
        ->check(CLI::Range(1, 1024));
    command->add_option("--alpha", o.alpha, "LoRA alpha; the update is scaled by alpha / rank")
        ->capture_default_str();
    command->add_option("--targets", flags->targets, "q,k,v,o,gate,up,down, all, ple, tail")
        ->capture_default_str();
    command->add_option("--layers", flags->layers, "A-B: adapt these layers only");
    command->add_option("--lr", o.learning_rate, "learning rate")->capture_default_str();
    command->add_option("--schedule", flags->schedule, "learning rate over time")
        ->capture_default_str()
        ->check(CLI::IsMember({"constant", "linear", "cosine"}));
    command->add_option("--warmup", o.warmup_steps, "warm-up steps")->capture_default_str();
    command->add_option("--batch", o.batch_samples, "samples of one step")
        ->capture_default_str()
        ->check(CLI::Range(1, 65536));
    command->add_option("--window", o.window_tokens, "longest sample in tokens")
        ->capture_default_str()
        ->check(CLI::Range(2, 1 << 20));
    command->add_option("--clip", o.clip_norm, "largest gradient norm (0 = off)")
        ->capture_default_str();
    command->add_option("--weight-decay", o.weight_decay, "AdamW's weight decay")
        ->capture_default_str();
    command->add_option("--seed", o.seed, "seed of everything")
        ->capture_default_str()
        ->check(seed_range());
    command
        ->add_option("--val-split", flags->validation_share,
                     "share held out for validation (0 = none)")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 0.9));
    command->add_option("--val-file", flags->validation_file, "validation data of its own");
    command->add_option("--init-from", flags->init, "continue from this adapter");
    command->add_flag("--all-tokens", flags->all_tokens,
                      "learn every token, not only the assistant's");
    command->add_flag_callback(
        "--no-recompute", [flags] { flags->options.recompute = false; },
        "keep every layer's activations (faster, much more memory)");
    command->add_flag("--json", flags->json, "progress as JSON lines on stdout");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
