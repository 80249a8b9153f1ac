// The one decoder graph of all supported architectures, driven by Config and Weights; used with a
// KV cache (serving) and without (training). Rows whose logits nobody wants stop after the K/V
// projections of the last layer that owns K/V.
#pragma once

#include "graph/ops.h"
#include "model/config.h"
#include "model/weights.h"

#include <span>

namespace lumi {

// Shape of one graph: T tokens go in, logits of R of them come out (0 = fill the cache only).
struct GraphShape {
    int n_tokens = 0;
    int n_rows = 0;
    int n_kv_full = 0;  // K/V entries a global layer sees: cache cells, or n_tokens without a cache
    int n_kv_swa = 0;   // the same for sliding layers
};

// Tensors the host fills before each run; made by make_inputs, null where the shape needs none.
// Between the cut (Config::last_kv_layer) and the top only the wanted rows exist.
struct GraphInputs {
    ggml_tensor * embd = nullptr;      // F32 [n_embd, T]: rows of token_embd, unscaled
    ggml_tensor * ple_low = nullptr;   // F32 [n_ple*cut, T]: PLE rows of layers below the cut
    ggml_tensor * ple_high = nullptr;  // F32 [n_ple*(n_layer-cut), R]: the rest, wanted rows only
    ggml_tensor * rows = nullptr;      // I32 [R]: wanted rows within the batch; null when R == T
    ggml_tensor * pos = nullptr;       // I32 [T]
    ggml_tensor * pos_rows = nullptr;  // I32 [R]; pos itself when R == T
    ggml_tensor * mask_full =
        nullptr;  // [n_kv_full, T], 0 = see, -inf = not (F16 with flash, else F32)
    ggml_tensor * mask_swa = nullptr;        // [n_kv_swa, T]
    ggml_tensor * mask_full_rows = nullptr;  // [n_kv_full, R]; mask_full itself when R == T
    ggml_tensor * mask_swa_rows = nullptr;   // [n_kv_swa, R]
    ggml_tensor * cells_full = nullptr;  // I64 [T]: cache cell of each token; null without a cache
    ggml_tensor * cells_swa = nullptr;
};
GraphInputs make_inputs(ggml_context * ctx, const Config & config, const GraphShape & shape,
                        bool with_cache, bool flash);

struct KeyValue {
    ggml_tensor * k = nullptr;  // [head_dim, n_head_kv, N]
    ggml_tensor * v = nullptr;
};

// Where K and V of a layer go and come from. Implemented by the session's cache; a null store keeps
// them in the graph (training).
class KvStore {
  public:
    virtual ~KvStore() = default;
    // Writes this batch's k and v ([head_dim, n_head_kv, T], F32) of layer il and returns what its
    // attention shall read. The write must be part of the graph before the read.
    virtual KeyValue append(GraphContext & g, ggml_cgraph * graph, int il,
                            const GraphInputs & inputs, ggml_tensor * k, ggml_tensor * v) = 0;
    virtual KeyValue read(GraphContext & g, int il) = 0;
};

struct DecoderModel {
    const Config * config = nullptr;
    const Weights * weights = nullptr;
    const LoraView * loras = nullptr;
};

// What one layer takes and gives. kv: the source layer's K/V for layers that own none.
struct LayerResult {
    ggml_tensor * hidden = nullptr;  // [n_embd, T or R]; null when R == 0 at the cut
    KeyValue own;                    // this layer's fresh K/V; null for sharing layers
};
// One layer. ple: this layer's slice [n_ple, T or R] or null. store: null in training.
LayerResult build_layer(GraphContext & g, ggml_cgraph * graph, const DecoderModel & model,
                        const GraphInputs & inputs, int il, ggml_tensor * hidden, ggml_tensor * ple,
                        KeyValue source, KvStore * store);

// The scaled embedding [n_embd, T] and the per-layer PLE inputs (one [n_ple, T or R] a layer).
struct StemResult {
    ggml_tensor * hidden = nullptr;
    std::vector<ggml_tensor *> ple;
};
StemResult build_stem(GraphContext & g, const DecoderModel & model, const GraphInputs & inputs);

// Final norm, head and softcap: hidden [n_embd, R] -> logits [n_vocab, R].
ggml_tensor * build_head(GraphContext & g, const DecoderModel & model, ggml_tensor * hidden);

// The whole inference graph; returns the logits [n_vocab, R], null when R == 0. Everything is
// expanded into graph.
ggml_tensor * build_inference_graph(GraphContext & g, ggml_cgraph * graph,
                                    const DecoderModel & model, const GraphInputs & inputs,
                                    KvStore & store);

// Layers evaluated for n_tokens with n_rows wanted, summed over tokens (a debug counter).
uint64_t layer_evaluations(const Config & config, const GraphShape & shape);

}  // namespace lumi
