// A tiny model of tests/parity with its float64 reference, and one run of the training graph over
// it. Config and weights are copies that a test may damage.
#pragma once

#include "graph/train_graph.h"
#include "model/model.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace lumi::test {

using Floats = std::vector<float>;

struct TinyModel {
    std::unique_ptr<Model> model;
    Config config;
    Weights weights;
};
TinyModel load_tiny(const std::string & name, const std::string & device = "cpu");

// The numbers of NAME-gradients.gguf.
struct Reference {
    std::vector<int32_t> tokens;
    std::vector<int32_t> rows;        // supervised rows: row r predicts tokens[r + 1]
    std::vector<int32_t> logit_rows;  // rows of `logits`
    float loss_sum = 0;
    float base_loss_sum = 0;
    float scale = 0;                        // alpha / rank
    std::map<std::string, Floats> tensors;  // by name
    std::map<std::string, std::vector<int64_t>> shapes;
};
Reference load_reference(const std::string & name);

// Other numbers that a fixture holds for the same adapter.
struct Expected {
    float loss_sum = 0;
    float dropout = 0;
    std::map<std::string, Floats> tensors;  // "grad." + name, "factors"
};
Expected load_expected(const std::string & file);

// Samples of NAME-samples.gguf, laid end to end.
struct Samples {
    std::vector<int32_t> lengths;
    std::vector<int32_t> tokens;
    Floats weights;  // of each token as a target
    double loss_sum = 0;
    std::map<std::string, Floats> tensors;  // "grad." + name
};
Samples load_samples(const std::string & file);

// Tensors of the reference's adapter on a device, with accumulators at zero.
struct TinyAdapter {
    GgmlContext context;
    GgmlBuffer buffer;
    std::vector<TrainablePair> pairs;
    LoraView view;
};
// layers above `lowest` only; frozen pairs are applied but not in `pairs`. The n-th pair is that of
// the n-th weight by name.
TinyAdapter make_adapter(const Reference & reference, const Device & device, int lowest = 0);
// The number of pairs that touch one weight at most.
int most_adapters(const LoraView & view, int n_layer);

// [out, in] F32 copies of every frozen matrix of the model, dequantised on the host.
class TransposedCopies {
  public:
    TransposedCopies(const Weights & weights, const Device & device);
    ggml_tensor * find(const ggml_tensor * weight) const;

  private:
    GgmlContext context_;
    GgmlBuffer buffer_;
    std::map<const ggml_tensor *, ggml_tensor *> copies_;
};

struct RunOptions {
    Products products = Products::ggml;
    bool recompute = true;
    int chunk = 4;
    float loss_scale = 1.0F;
    bool learn = true;
    int window = -1;  // -1: the config's
    float dropout = 0.0F;
    Floats dropout_factors;   // empty: drawn
    bool every_row = false;   // every token but the last is supervised, by the next
    bool build_only = false;  // no computation: n_nodes and outside_allowed_set
};

struct RunResult {
    float loss_sum = 0;
    Floats row_loss;
    std::map<std::string, Floats> gradients;  // "blk.0.attn_q.weight.lora_a"
    size_t compute_bytes = 0;                 // of the graph's own buffer
    int n_nodes = 0;
    std::vector<std::string> outside_allowed_set;
    std::set<ggml_op> ops;
};
// One step over the reference's tokens. Gradients are divided by the loss scale.
RunResult run_training(const TinyModel & tiny, const Reference & reference, TinyAdapter & adapter,
                       const RunOptions & options);

// Logits [n_vocab, rows] of the inference graph without a cache; adapter may be null.
Floats run_logits(const TinyModel & tiny, const std::vector<int32_t> & tokens,
                  const std::vector<int32_t> & rows, const LoraView * loras, bool differentiable);

// Fills embeddings, PLE rows, positions, rows and masks of a graph without a cache.
void fill_inputs(const GraphInputs & inputs, const TinyModel & tiny,
                 const std::vector<int32_t> & tokens, const std::vector<int32_t> & rows,
                 int window);

double relative_l2(const Floats & got, const Floats & wanted);
std::vector<int32_t> all_rows(size_t n);

}  // namespace lumi::test
