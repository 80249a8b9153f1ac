// lumi train: fits a LoRA adapter to a dataset and writes it as GGUF.
#include "cli/progress.h"
#include "cli/train_run.h"
#include "train/checkpoint.h"

#include <cstdio>

namespace lumi {

namespace {

constexpr uint64_t kMaxDatasetBytes = uint64_t{4} << 30U;

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

Result<std::optional<AdapterData>> read_init(const TrainFlags & flags, const Model & model) {
    if (flags.init.empty()) {
        return std::optional<AdapterData>();
    }
    const GgufFile file = LUMI_TRY(GgufFile::open(flags.init));
    AdapterData init = LUMI_TRY(load_adapter(file, model.config(), model.file().fingerprint()));
    LUMI_TRY(flags.check_init(init));
    return std::optional(std::move(init));
}

Result<std::optional<Checkpoint>> read_resumed(const TrainFlags & flags) {
    if (flags.resume.empty()) {
        return std::optional<Checkpoint>();
    }
    const std::string path = LUMI_TRY(find_checkpoint(flags.resume));
    return std::optional(LUMI_TRY(read_checkpoint(path)));
}

Result<std::unique_ptr<Trainer>> make_trainer(const TrainFlags & flags, const LoadedModel & loaded,
                                              Dataset data, Dataset validation) {
    const std::optional<AdapterData> init = LUMI_TRY(read_init(flags, *loaded.model));
    const std::optional<Checkpoint> resumed = LUMI_TRY(read_resumed(flags));
    std::unique_ptr<Trainer> trainer = LUMI_TRY(
        Trainer::create(*loaded.model, std::move(data), std::move(validation), flags.options,
                        init ? &*init : nullptr, resumed ? &*resumed : nullptr));
    const TrainPlan & plan = trainer->plan();
    std::fprintf(stderr, "%zu adapter tensors, %d steps of up to %d samples\n%s", plan.n_tensors,
                 plan.steps, flags.options.batch_samples, plan.memory.text().c_str());
    if (resumed) {
        std::fprintf(stderr, "going on after step %d\n", trainer->summary().steps);
    }
    return trainer;
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
    if (s.kept_epoch > 0) {
        std::fprintf(stderr, "kept epoch %d of %zu, the one with the best validation loss\n",
                     s.kept_epoch, s.epoch_train_loss.size());
    }
    if (!s.stopped_because.empty()) {
        std::fprintf(stderr, "stopped early: %s\n", s.stopped_because.c_str());
    }
    return {};
}

// What follows the last step: the adapter, unless there is nothing to save, and what to do next.
Status conclude(const Status & trained, const Trainer & trainer, const TrainRun & run,
                const LoadedModel & loaded, const TrainFlags & flags) {
    if (trainer.summary().steps == 0) {
        return trained;
    }
    LUMI_TRY(save(trainer, loaded.model->config(), flags));
    if (run.interrupted()) {
        const std::string command = run.resume_command();
        std::fprintf(stderr, "%s%s\n",
                     command.empty() ? "no checkpoint could be written" : "to go on:\n  ",
                     command.c_str());
        return trained;
    }
    LUMI_TRY(trained);
    return run.clean_up();
}

Status run(TrainFlags & flags, bool & interrupted) {
    LUMI_TRY(flags.resolve());
    LUMI_TRY(check_output(flags.output,
                          {flags.model.path, flags.data, flags.validation_file, flags.init}));
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    LUMI_TRY(flags.resolve_targets(loaded.model->config()));
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
    const std::unique_ptr<Trainer> trainer =
        LUMI_TRY(make_trainer(flags, loaded, std::move(data), std::move(validation)));
    TrainRun train_run = LUMI_TRY(TrainRun::create(flags));
    const Status trained = train_run.run(*trainer);
    interrupted = train_run.interrupted();
    return conclude(trained, *trainer, train_run, loaded, flags);
}

}  // namespace

void declare_train(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<TrainFlags>();
    CLI::App * command = add_command(
        app, "train", "fit a LoRA adapter to your chats or text",
        "  lumi train model.gguf chats.jsonl -o lesson.gguf\n"
        "  lumi train model.gguf notes.txt -o notes.gguf --epochs 4 --rank 8 --lr 2e-4\n"
        "  lumi train model.gguf chats.jsonl -o lesson.gguf --resume lesson.gguf.checkpoints\n\n"
        "Ctrl-C finishes the step, saves, and prints how to go on; the exit code is then 130.");
    flags->declare(*command);
    command->callback([flags, &exit_code] {
        bool interrupted = false;
        exit_code = exit_code_of(run(*flags, interrupted));
        exit_code = exit_code == 0 && interrupted ? kExitInterrupted : exit_code;
    });
}

}  // namespace lumi
