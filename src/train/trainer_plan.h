// What a training run needs before it starts: the first adapter, the shape of its largest run, and
// the memory for both. Internal to train/.
#pragma once

#include "train/parameters.h"
#include "train/trainer.h"
#include "train/transposed_weights.h"

namespace lumi {

// The adapter training starts from: init when given (checked against the model), else a new one.
Result<AdapterData> starting_adapter(const Model & model, const TrainOptions & options,
                                     const AdapterData * init);

// Samples must fit the window, and the window the model.
Status check_samples(const Model & model, const Dataset & dataset, const TrainOptions & options,
                     const char * what);

// Tokens and rows of the largest packed run that any shuffling of the samples can give.
GraphShape largest_run(std::span<const Sample> samples, int batch_samples);

Result<MemoryPlan> plan_training(const Model & model, const TrainOptions & options,
                                 const AdapterData & start, GraphShape shape);
// Against the memory of the host, or of the device when that is not the CPU.
Status enforce_plan(const Model & model, const MemoryPlan & plan);

// The lowest layer with a pair.
int lowest_layer(const AdapterData & adapter);
bool needs_transposed(const Model & model, const TrainOptions & options);

}  // namespace lumi
