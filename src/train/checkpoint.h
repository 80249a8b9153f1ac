// A checkpoint: everything a run needs to go on, in one GGUF file that is written as a whole or not
// at all (cases/training.md L32, L33).
//   general.type                       "training-checkpoint"
//   lumi.checkpoint.version, .step     u32
//   lumi.setting.NAME                  string: settings, data and base of the run
//   parameters, first_moment, second_moment, good [, best]   F32 [1024, n]: flat, as in
//   parameters.h state                              F64: the numbers of TrainState, in the order of
//   each_number order                              I32: the epoch's order of the samples step_loss,
//   epoch_train_loss, epoch_validation_loss       F64: the losses so far
#pragma once

#include "train/parameters.h"
#include "train/train_settings.h"
#include "train/train_state.h"

namespace lumi {

struct Checkpoint {
    GgufFile file;  // keeps the spans' memory mapped
    TrainSettings settings;
    TrainState state;
    std::span<const float> parameters;
    std::span<const float> first_moment;
    std::span<const float> second_moment;
    std::span<const float> good;
    std::span<const float> best;  // empty: none yet
};

// Checks everything that does not need the run: lengths, ranges, finite numbers.
Result<Checkpoint> read_checkpoint(const std::string & path);
Result<Checkpoint> read_checkpoint(GgufFile file);

// Weights that are not in the parameters' tensors; best may be empty.
struct KeptWeights {
    const std::vector<float> & good;
    const std::vector<float> & best;
};
Status write_checkpoint(const TrainState & state, const TrainSettings & settings,
                        const TrainParameters & parameters, const KeptWeights & kept,
                        const std::string & path);

}  // namespace lumi
