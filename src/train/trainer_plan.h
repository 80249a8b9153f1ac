// What a training run needs before it starts: the first adapter, the shape of its largest run, the
// memory for both, and whether there is enough of it to keep activations. Internal to train/.
#pragma once

#include "train/parameters.h"
#include "train/trainer.h"
#include "train/transposed_weights.h"

#include <optional>

namespace lumi {

// The adapter training starts from: init when given (checked against the model), else a new one.
Result<AdapterData> starting_adapter(const Model & model, const TrainOptions & options,
                                     const AdapterData * init);

// Samples must fit the window, and the window the model.
Status check_samples(const Model & model, const Dataset & dataset, const TrainOptions & options,
                     const char * what);

// Tokens and rows of the largest packed run that any shuffling of the samples can give.
GraphShape largest_run(std::span<const Sample> samples, int batch_samples);

// Everything decided before a run.
struct RunSetup {
    AdapterData start;
    GraphShape shape;  // of the largest run
    TrainPlan plan;
};
// recompute: of the run that is resumed, where there is one.
Result<RunSetup> set_up_run(const Model & model, const Dataset & train, const Dataset & validation,
                            const TrainOptions & options, const AdapterData * init,
                            std::optional<bool> recompute = std::nullopt);
// Against the memory of the host, or of the device when that is not the CPU.
Status enforce_plan(const Model & model, const MemoryPlan & plan);

// The lowest layer with a pair.
int lowest_layer(const AdapterData & adapter);
bool needs_transposed(const Model & model, const TrainOptions & options);

}  // namespace lumi
