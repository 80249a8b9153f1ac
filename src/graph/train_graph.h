// One training step as a graph: forward, loss at the supervised rows, and the adjoint of every
// layer from the top down, each expanded before the next so that memory is N checkpoints plus one
// layer. Gradients are added into the parameters' accumulators.
#pragma once

#include "graph/decoder.h"
#include "graph/loss.h"

namespace lumi {

struct TrainGraphOptions {
    Products products = Products::ggml;
    bool recompute = true;      // keep only layer inputs; rebuild each layer for its adjoint
    int loss_chunk_rows = 128;  // rows of [n_vocab, rows] that exist at once
    float dropout = 0.0F;       // probability, for what the trainable pairs read
    std::function<ggml_tensor *(const ggml_tensor * weight)> transposed;  // Products::ggml
};

// A trainable pair: tensors and the accumulators their gradients are added to (same shapes). The
// graph adds to the accumulators and never clears them.
struct TrainablePair {
    int layer = 0;
    Module module = Module::q;
    LoraTensors lora;
    ggml_tensor * grad_a = nullptr;
    ggml_tensor * grad_b = nullptr;
};

struct TrainGraph {
    ggml_cgraph * graph = nullptr;
    GraphInputs inputs;
    // Inputs of the loss; padding rows have weight 0 and any valid cell.
    ggml_tensor * label_cells = nullptr;  // I32 [R]: filled by fill_label_cells (graph/loss.h) with
                                          // the options' loss_chunk_rows
    ggml_tensor * weights = nullptr;      // F32 [1, R]: weight of each row; 0 for padding rows
    ggml_tensor * loss_scale = nullptr;   // F32 [1]: multiplies gradients (a power of two); null in
                                          // evaluation
    ggml_tensor * dropout = nullptr;   // F32 [n]: filled by fill_dropout (graph/dropout.h) before
                                       // each run; null without dropout
    ggml_tensor * loss_sum = nullptr;  // F32 [1] output: sum of weighted_loss (graph/loss.h)
    ggml_tensor * row_loss = nullptr;  // F32 [1, R] output: -log p(label), unweighted
};

// Nodes a context must hold for this config and shape (an upper bound), for sizing ggml contexts.
// adapters: the most adapters that touch one weight.
size_t train_graph_nodes(const Config & config, const GraphShape & shape,
                         const TrainGraphOptions & options, int adapters = 1);
// Bytes of a no-alloc context that holds n_nodes tensors and one graph of them.
size_t graph_context_bytes(size_t n_nodes);

// model.loras holds every adapter applied (frozen ones too); trainable lists those that learn.
// Empty trainable builds the forward and the loss only (evaluation). shape.n_kv_* are n_tokens.
// Fails by name when a weight has no transposed copy, an operation no adjoint, or a pair takes no
// part in the model.
Result<TrainGraph> build_train_graph(ggml_context * ctx, const DecoderModel & model,
                                     const GraphShape & shape,
                                     std::span<const TrainablePair> trainable,
                                     const TrainGraphOptions & options);

// True for every operation all backends have (design, decision 2); custom operations are not.
bool in_allowed_set(const ggml_tensor * node, std::string & why_not);

}  // namespace lumi
