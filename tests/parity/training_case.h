// A tiny model with samples, an adapter and their float64 gradients (NAME-samples.gguf), run
// through the trainer's own packing, masks and graphs.
#pragma once

#include "parity/tiny_model.h"
#include "train/graph_runner.h"

namespace lumi::test {

struct TrainingCase {
    std::string name;
    TinyModel tiny;
    Dataset dataset;
    AdapterData adapter;
    double loss_sum = 0;                      // of weighted_loss
    std::map<std::string, Floats> gradients;  // "blk.0.attn_q.weight.lora_a"
};
TrainingCase load_training_case(const std::string & name, const std::string & device = "cpu");

struct GradientRun {
    bool packed = true;  // all samples in one graph, or each in one of its own
    bool recompute = true;
    bool portable = false;
    bool damage_masks = false;  // every sample sees those before it: must not pass
};

struct GradientErrors {
    size_t tensors = 0;
    int graphs = 0;
    double worst = 0;
    std::string worst_name;
    double loss = 0;  // relative
};
GradientErrors gradient_errors(const TrainingCase & c, const GradientRun & options);

// A row of the table in docs/measured.md.
void print_row(const TrainingCase & c, const char * device, const GradientRun & options,
               const GradientErrors & errors);

}  // namespace lumi::test
