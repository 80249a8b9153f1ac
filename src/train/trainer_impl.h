// The trainer's state and the phases it walks through; each call of advance() is one slice of one
// phase. Internal to train/.
#pragma once

#include "base/rng.h"
#include "train/evaluation.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/trainer_plan.h"

#include <atomic>
#include <optional>

namespace lumi {

// The power of two that gradients are multiplied by while they pass through products that may round
// to half precision (design, Range).
struct LossScale {
    float value = 1024.0F;
    int clean_steps = 0;

    void step_was_clean() {
        constexpr int kCleanSteps = 200;
        constexpr float kMost = 1048576.0F;
        if (++clean_steps >= kCleanSteps && value < kMost) {
            value *= 2.0F;
            clean_steps = 0;
        }
    }
    void gradients_overflowed() {
        value *= 0.5F;
        clean_steps = 0;
    }
};

struct Trainer::Impl {
    enum class Phase : unsigned char {
        validate,    // slices of the validation set
        start_step,  // choose and pack the step's samples
        run,         // slices of its runs
        end_step,    // norm, clipping, AdamW
        end_epoch,   // report
        verify,      // without a validation set: the last weights must give a finite loss
        done,
    };

    Impl(const Model & trained, const TrainOptions & chosen)
        : model(&trained), options(chosen), rng(chosen.seed) {}

    Result<TrainProgress> advance();
    Result<TrainProgress> run_phase();
    Result<TrainProgress> validate_slice();
    Result<TrainProgress> start_step();
    Result<TrainProgress> run_slice();
    Result<TrainProgress> end_step();
    Result<TrainProgress> redo_step();
    Result<TrainProgress> end_epoch();
    Result<TrainProgress> verify_slice();
    TrainProgress finish();
    // Puts the last good weights back and ends; returns the error.
    Error fail(const Error & why);

    void shuffle();
    Status begin_runs();
    Status begin_run();  // next_run
    AdamwStep adamw_step(double gradient_norm) const;
    TrainProgress progress(TrainProgress::Event event, double loss) const;
    double eta_seconds() const;
    int steps_per_epoch() const;
    int epoch() const { return step / steps_per_epoch(); }  // of the step under way, from 0
    AdapterData adapter() const;

    const Model * model;
    TrainOptions options;
    Dataset train;
    Dataset validation;
    std::unique_ptr<TransposedWeights> transposed;
    std::unique_ptr<TrainParameters> parameters;
    std::unique_ptr<Optimizer> optimizer;
    std::unique_ptr<GraphRunner> runner;
    Rng rng;
    std::atomic<bool> stop_requested = false;

    Phase phase = Phase::start_step;
    int step = 0;  // steps completed
    int total_steps = 0;
    std::vector<size_t> order;  // of the samples in this epoch
    LossScale loss_scale;

    // The step under way.
    std::vector<PackedBatch> runs;
    size_t next_run = 0;
    double step_weight = 0;  // sum of |weight| over its targets
    double step_loss = 0;    // sum of weight * loss
    int redone = 0;

    std::optional<Evaluation> evaluation;
    bool verifying = false;
    bool verified = false;    // the weights as they are have given a finite loss
    std::vector<float> good;  // the last weights that gave finite loss and gradients
    std::vector<float> best;  // the best validation loss after an epoch
    double best_loss = 0;

    // What the epoch and the report add up.
    double epoch_loss = 0;
    double epoch_weight = 0;
    double last_loss = 0;
    double smoothed = 0;
    double gradient_norm = 0;
    double learning_rate = 0;
    uint64_t tokens_done = 0;
    uint64_t targets_done = 0;
    double seconds = 0;        // spent inside advance()
    double train_seconds = 0;  // of them, not in validation
    TrainSummary summary;
};

}  // namespace lumi
