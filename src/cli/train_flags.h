// The options of `lumi train`: what they are called and what they say of themselves.
#pragma once

#include "cli/command.h"

namespace lumi {

struct TrainFlags {
    ModelFlags model;
    TrainOptions options;

    std::string data;
    std::string validation_file;
    double validation_share = 0.05;
    bool all_tokens = false;
    bool dry_run = false;

    std::string targets = "all";
    std::string layers;
    std::string schedule = "cosine";
    std::string recompute = "auto";
    std::string init;

    std::string output;
    std::string checkpoint_dir;  // empty: beside the output, gone when the run ends well
    int save_every = 0;          // steps; 0: every few minutes
    int keep = 2;
    std::string resume;

    std::string metrics;
    std::string tensorboard;
    std::string loss_svg;
    bool json = false;

    CLI::App * command = nullptr;
    void declare(CLI::App & app);
    bool given(const char * flag) const { return command->count(flag) > 0; }
    // Words become options; checked.
    Status resolve();
    // Targets and layers of the options, which need the model.
    Status resolve_targets(const Config & config);
    // With --init-from the adapter's own rank, alpha and pairs are trained: other wishes are
    // refused.
    Status check_init(const AdapterData & start) const;
    std::string checkpoint_path() const {
        return checkpoint_dir.empty() ? output + ".checkpoints" : checkpoint_dir;
    }
    // The command that continues this run from a checkpoint, quoted for a shell.
    std::string resume_command(const std::string & from) const;
};

}  // namespace lumi
