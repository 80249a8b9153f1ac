// lumi train: fits a LoRA adapter to a dataset and writes it as GGUF.
#include "cli/dry_run.h"
#include "cli/progress.h"
#include "cli/train_data.h"
#include "cli/train_run.h"
#include "train/checkpoint.h"

#include <cstdio>

namespace lumi {

namespace {

struct TrainingData {
    Dataset train;
    Dataset validation;
};

Result<TrainingData> read_data(const TrainFlags & flags, const LoadedModel & loaded) {
    const auto read = [&](const std::string & path) {
        return read_dataset(path, loaded, flags.options.window_tokens, flags.all_tokens);
    };
    TrainingData data;
    data.train = LUMI_TRY(read(flags.data));
    if (!flags.validation_file.empty()) {
        data.validation = LUMI_TRY(read(flags.validation_file));
    } else if (flags.validation_share > 0) {
        data.validation = split_validation(data.train, flags.validation_share, flags.options.seed);
    }
    std::fprintf(stderr, "training: %s\n", dataset_text(data.train).c_str());
    if (!data.validation.samples.empty()) {
        std::fprintf(stderr, "validation: %s\n", dataset_text(data.validation).c_str());
    }
    warn_of_shared(data.train, data.validation);
    return data;
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
        LUMI_TRY(run.clean_up());
        if (run.interrupted()) {
            std::fprintf(stderr, "stopped before the first step; nothing was saved\n");
        }
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

Status check_outputs(const TrainFlags & flags) {
    std::vector<std::string> taken = {flags.model.path, flags.data, flags.validation_file,
                                      flags.init};
    for (const std::string & output : {flags.output, flags.metrics, flags.loss_svg}) {
        if (!output.empty()) {
            LUMI_TRY(check_output(output, taken));
            taken.push_back(output);
        }
    }
    return {};
}

Status dry_run(const TrainFlags & flags, const LoadedModel & loaded, const TrainingData & data) {
    const std::optional<AdapterData> init = LUMI_TRY(read_init(flags, *loaded.model));
    const TrainPlan plan = LUMI_TRY(Trainer::plan(*loaded.model, data.train, data.validation,
                                                  flags.options, init ? &*init : nullptr));
    print_dry_run({flags.command, loaded.tokenizer.get(), &data.train, &data.validation, &plan},
                  flags.json);
    return {};
}

Status run(TrainFlags & flags, bool & interrupted) {
    LUMI_TRY(flags.resolve());
    LUMI_TRY(check_outputs(flags));
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    LUMI_TRY(flags.resolve_targets(loaded.model->config()));
    TrainingData data = LUMI_TRY(read_data(flags, loaded));
    if (flags.dry_run) {
        return dry_run(flags, loaded, data);
    }
    const std::unique_ptr<Trainer> trainer =
        LUMI_TRY(make_trainer(flags, loaded, std::move(data.train), std::move(data.validation)));
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
