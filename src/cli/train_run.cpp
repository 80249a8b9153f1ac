// A checkpoint that cannot be written is a warning: the run may well outlive a full disk.
#include "cli/train_run.h"

#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/progress.h"
#include "train/loss_curve.h"

#include <cstdio>

namespace lumi {

namespace {

constexpr double kSaveSeconds = 300.0;

}  // namespace

Result<TrainRun> TrainRun::create(const TrainFlags & flags) {
    const std::string path = flags.checkpoint_path();
    CheckpointDir dir = LUMI_TRY(CheckpointDir::open(path, flags.keep));
    const std::vector<CheckpointEntry> there = LUMI_TRY(dir.list());
    if (!there.empty() && flags.resume.empty()) {
        return Error{ErrorKind::invalid_argument,
                     "folder " + quoted(path, 1024) +
                         " holds checkpoints of another run, up to step " +
                         std::to_string(there.back().step) + "; --resume " + path +
                         " continues it; to start anew remove the folder or choose another with "
                         "--checkpoint-dir"};
    }
    return TrainRun(flags, std::move(dir));
}

bool TrainRun::is_due(int step) const {
    if (flags_->save_every > 0) {
        return step % flags_->save_every == 0;
    }
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_save_;
    return since.count() >= kSaveSeconds;
}

Status TrainRun::save(const Trainer & trainer) {
    const int step = trainer.summary().steps;
    last_save_ = std::chrono::steady_clock::now();
    LUMI_TRY(trainer.save_checkpoint(dir_.path_of(step)));
    last_saved_step_ = step;
    saved_ = true;
    return dir_.retain();
}

Status TrainRun::open_reports(const Trainer & trainer) {
    const bool resumed = !flags_->resume.empty();
    const int step = trainer.summary().steps;
    if (!flags_->metrics.empty()) {
        sinks_.push_back(LUMI_TRY(open_metrics_file(flags_->metrics, resumed, step)));
    }
    if (!flags_->tensorboard.empty()) {
        sinks_.push_back(LUMI_TRY(open_tensorboard(flags_->tensorboard, resumed, step)));
    }
    return flags_->loss_svg.empty()
               ? Status()
               : write_text_file(flags_->loss_svg, loss_curve_svg(trainer.summary()));
}

void TrainRun::warn_once(const Status & status) {
    if (!status.ok() && !warned_) {
        log(LogLevel::warning, status.error().message + "; the run goes on");
        warned_ = true;
    }
}

void TrainRun::report(const Trainer & trainer, const TrainProgress & progress) {
    if (progress.event == TrainProgress::Event::slice) {
        return;
    }
    for (const std::unique_ptr<MetricsSink> & sink : sinks_) {
        warn_once(sink->add(progress));
    }
    if (!flags_->loss_svg.empty() && progress.event != TrainProgress::Event::step) {
        warn_once(write_text_file(flags_->loss_svg, loss_curve_svg(trainer.summary())));
    }
}

Status TrainRun::run(Trainer & trainer) {
    LUMI_TRY(open_reports(trainer));
    TrainReporter reporter(progress_style(flags_->json));
    const std::shared_ptr<CancelToken> cancel = cancel_on_signal();
    last_saved_step_ = trainer.summary().steps;
    while (!trainer.done()) {
        if (cancel->cancelled() && !interrupted_) {
            reporter.finish();
            std::fprintf(stderr, "finishing the step, then saving; again to end at once\n");
            interrupted_ = true;
        }
        const int step = trainer.summary().steps;
        if (trainer.at_boundary() && (interrupted_ || (step > last_saved_step_ && is_due(step)))) {
            const Status saved = step > 0 ? save(trainer) : Status();
            if (!saved.ok()) {
                reporter.finish();
                log(LogLevel::warning,
                    "no checkpoint at step " + std::to_string(step) + ": " + saved.error().message);
                last_saved_step_ = step;
            }
            if (interrupted_) {
                trainer.request_stop();
            }
        }
        const Result<TrainProgress> progress = trainer.advance();
        if (!progress.ok()) {
            reporter.finish();
            return progress.error();
        }
        reporter.report(*progress);
        report(trainer, *progress);
    }
    reporter.finish();
    return {};
}

Status TrainRun::clean_up() const {
    return flags_->checkpoint_dir.empty() ? dir_.remove() : Status();
}

std::string TrainRun::resume_command() const {
    return saved_ ? flags_->resume_command(dir_.path()) : "";
}

}  // namespace lumi
