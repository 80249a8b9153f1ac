// Runs packed batches through training or evaluation graphs: builds the graph of a shape, keeps it
// while shapes repeat, fills its inputs and computes it in slices.
#pragma once

#include "model/model.h"
#include "train/packing.h"
#include "train/sliced_graph.h"

#include "graph/train_graph.h"

namespace lumi {

struct RunnerOptions {
    TrainGraphOptions graph;
    double slice_seconds = 0.02;
};

// The graph options a device trains best with; portable asks for ggml's products everywhere.
TrainGraphOptions graph_options(const Model & model, bool portable, bool recompute);

class GraphRunner {
  public:
    // loras: everything applied; trainable: those of them that learn. Both are copied, the tensors
    // must outlive the runner.
    GraphRunner(const Model & model, const LoraView & loras,
                std::span<const TrainablePair> trainable, RunnerOptions options);

    // Takes the memory for runs of up to this shape, so that none is freed and taken anew between
    // runs of other shapes, and a lack of it shows before the first step.
    Status reserve(const GraphShape & largest);

    // Prepares a run. learn adds gradients, multiplied by loss_scale, to the accumulators; what is
    // dropped (options.graph.dropout) follows from dropout_seed alone.
    Status begin(const PackedBatch & batch, bool learn, float loss_scale,
                 uint64_t dropout_seed = 0);
    // The next slice; true when the run is complete and the losses can be read.
    Result<bool> advance() { return sliced_.advance(); }
    int slices_run() const { return sliced_.slices_run(); }
    // The graph of the run that begin() prepared, to measure it.
    ggml_cgraph * graph() const { return built_.graph.graph; }

    // Of the completed run: the sum of weighted losses (graph/loss.h), and each row's loss,
    // unweighted.
    double loss_sum() const;
    std::vector<float> row_losses() const;

    // Bytes of activations a run of this shape needs. Refuses what the device cannot run, by name.
    Result<uint64_t> measure(const GraphShape & shape, bool learn);
    // How many graphs were built so far (shapes that repeat build none).
    int graphs_built() const { return graphs_built_; }

  private:
    struct BuiltGraph {
        GgmlContext context;
        TrainGraph graph;
        GraphShape shape;
        bool learn = false;
    };
    Result<BuiltGraph> build(const GraphShape & shape, bool learn);
    Status prepare(const GraphShape & shape, bool learn);
    Status fill_inputs(const PackedBatch & batch, float loss_scale);
    void fill_dropout_factors(uint64_t seed);

    const Model * model_;
    LoraView loras_;
    std::vector<TrainablePair> trainable_;
    RunnerOptions options_;
    int adapters_ = 1;  // the most that touch one weight
    GgmlAllocator allocator_;
    BuiltGraph built_;  // in use; shares the allocator's one buffer with nothing else
    bool checked_[2] = {false, false};  // the device can run the graphs: evaluation, learning
    int graphs_built_ = 0;
    SlicedGraph sliced_;
};

}  // namespace lumi
