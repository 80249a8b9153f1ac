// Runs batches of tokens through the decoder graph and the KV cache. Builds a graph when the shape
// changes and keeps it while it does not: a decoded token costs no allocation.
#pragma once

#include "model/model.h"
#include "session/kv_cache.h"

namespace lumi {

// Consecutive tokens from position `first` on, and whose logits are wanted.
enum class Wanted : unsigned char { none, last, all };
struct Batch {
    std::span<const int32_t> tokens;
    int first = 0;
    Wanted wanted = Wanted::last;

    int n_rows() const {
        const int n = static_cast<int>(tokens.size());
        return wanted == Wanted::none ? 0 : wanted == Wanted::last ? 1 : n;
    }
};

class Evaluator {
  public:
    struct Options {
        bool flash = false;
        bool plain_weights = false;
    };
    Evaluator(const Model & model, const KvCells & cells, KvCache & cache, Options options);

    // Pairs that graphs apply from now on; the view must stay until the next call.
    void set_loras(const LoraView * loras, int n_adapters);

    // Bytes of the compute buffer that batches of n_tokens need at the end of a full context.
    Result<uint64_t> measure(int n_tokens, Wanted wanted);
    // Takes that memory now.
    Status reserve(int n_tokens, Wanted wanted);

    // Computes; the cells of the batch must be writable. Logits are read with read_logits.
    Status run(const Batch & batch);
    // Row r of the last run's logits.
    void read_logits(int row, std::span<float> out) const;

    // Layers times tokens of one batch, see graph/decoder.h.
    uint64_t layer_evaluations(const Batch & batch) const;

  private:
    struct Key {
        GraphShape shape;
        uint64_t loras = 0;
        bool operator==(const Key & other) const;
    };

    Status build(const GraphShape & shape);
    GraphShape shape_of(int n_tokens, int n_rows, int end) const;
    Status fill_inputs(const Batch & batch);
    Status fill_embeddings(const Batch & batch, std::span<const int32_t> wanted);
    void fill_positions(const Batch & batch);
    void fill_masks(const Batch & batch);
    template <typename T> void fill_mask(ggml_tensor * mask, bool swa, int first, int n_rows);

    const Model & model_;
    const KvCells & cells_;
    KvCache & cache_;
    Options options_;
    const LoraView * loras_ = nullptr;
    int n_adapters_ = 0;
    uint64_t lora_generation_ = 0;

    std::vector<std::byte> arena_;  // the graph's tensors live here
    GgmlContext context_;
    GgmlAllocator allocator_;
    ggml_cgraph * graph_ = nullptr;
    GraphInputs inputs_;
    ggml_tensor * logits_ = nullptr;
    Key built_;
    bool allocated_ = false;
    std::vector<std::byte> staging_;
};

}  // namespace lumi
