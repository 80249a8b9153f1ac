// A training run at the command line: steps until the end or a signal, with checkpoints on the way.
#pragma once

#include "cli/train_flags.h"
#include "train/checkpoint_dir.h"
#include "train/metrics.h"

namespace lumi {

class TrainRun {
  public:
    // Refuses a folder that holds another run's checkpoints.
    static Result<TrainRun> create(const TrainFlags & flags);

    // To the end, or until the first signal, which finishes the step under way and saves.
    Status run(Trainer & trainer);
    bool interrupted() const { return interrupted_; }
    // After the adapter was written: a run that ended well needs its own folder no more.
    Status clean_up() const;
    // The command that continues an interrupted run; empty when nothing was saved.
    std::string resume_command() const;

  private:
    TrainRun(const TrainFlags & flags, CheckpointDir dir) : flags_(&flags), dir_(std::move(dir)) {}
    bool is_due(int step) const;
    Status save(const Trainer & trainer);
    // The files of --metrics and --tensorboard, and the picture of --loss-svg.
    Status open_reports(const Trainer & trainer);
    void report(const Trainer & trainer, const TrainProgress & progress);
    void warn_once(const Status & status);

    const TrainFlags * flags_;
    CheckpointDir dir_;
    std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
    int last_saved_step_ = 0;
    bool interrupted_ = false;
    bool saved_ = false;
    std::vector<std::unique_ptr<MetricsSink>> sinks_;
    bool warned_ = false;  // that a report could not be written
};

}  // namespace lumi
