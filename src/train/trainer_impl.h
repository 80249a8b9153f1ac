// The trainer's state and the phases it walks through; each call of advance() is one slice of one
// phase. Internal to train/.
#pragma once

#include "train/evaluation.h"
#include "train/optimizer.h"
#include "train/schedule.h"
#include "train/train_settings.h"
#include "train/train_state.h"
#include "train/trainer_plan.h"

#include <atomic>
#include <optional>

namespace lumi {

struct Trainer::Impl : TrainState {
    using Phase = TrainPhase;

    Impl(const Model & trained, const TrainOptions & chosen)
        : model(&trained), options(chosen), random(chosen.seed) {}

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
    // The epoch of the last completed step, from 1; 0 before the first.
    int epochs_begun() const { return step == 0 ? 0 : (step - 1) / steps_per_epoch() + 1; }
    std::vector<const Sample *> samples_of_step(int within_epoch) const;
    AdapterData adapter() const;

    // Back to where the checkpoint was written; refuses another run's.
    Status resume(const Checkpoint & checkpoint);
    Status save(const std::string & path) const;
    bool at_boundary() const {
        return phase == Phase::validate || phase == Phase::start_step || phase == Phase::end_epoch;
    }
    // The first gradients tell whether every pair takes part (cases/training.md L11).
    Status check_first_gradients() const;
    // Whether validation has stopped getting better for as long as the options allow.
    bool stops_early() const;

    const Model * model;
    TrainOptions options;
    Dataset train;
    Dataset validation;
    std::unique_ptr<TransposedWeights> transposed;
    std::unique_ptr<TrainParameters> parameters;
    std::unique_ptr<Optimizer> optimizer;
    std::unique_ptr<GraphRunner> runner;
    Rng random;  // TrainState::rng is its state in a checkpoint
    std::atomic<bool> stop_requested = false;

    TrainPlan run_plan;
    TrainSettings settings;
    bool continued = false;  // from a given adapter
    int total_steps = 0;

    // The step under way.
    std::vector<PackedBatch> runs;
    size_t next_run = 0;
    double step_weight = 0;  // sum of |weight| over its targets
    double step_loss = 0;    // sum of weight * loss
    int redone = 0;

    std::optional<Evaluation> evaluation;
    bool verifying = false;
    std::vector<float> good;  // the last weights that gave finite loss and gradients
    std::vector<float> best;  // the best validation loss after an epoch
};

}  // namespace lumi
