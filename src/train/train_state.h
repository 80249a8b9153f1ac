// The numbers of a run beside its weights and moments: what a checkpoint holds so that a run can go
// on as if it had never stopped. Internal to train/.
#pragma once

#include "base/rng.h"
#include "train/trainer.h"

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

// The first three lie between steps; checkpoints know them by their numbers.
enum class TrainPhase : unsigned char {
    validate = 0,    // slices of the validation set
    start_step = 1,  // choose and pack the step's samples
    end_epoch = 2,   // report
    run,             // slices of the step's runs
    end_step,        // norm, clipping, AdamW
    verify,          // without a validation set: the last weights must give a finite loss
    done,
};

struct TrainState {
    TrainPhase phase = TrainPhase::start_step;
    int step = 0;                // steps completed
    std::vector<int32_t> order;  // of the samples in this epoch
    Rng::State rng = {};         // filled when a checkpoint is written
    LossScale loss_scale;

    bool verified = false;  // the weights as they are have given a finite loss
    bool recompute = true;  // as the plan decided
    double best_loss = 0;   // the best validation loss after an epoch
    int best_epoch = 0;     // 0: none yet
    double epoch_loss = 0;  // sums over the epoch under way
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
