// K and V of every layer that owns them, in one buffer on the model's device. Layers that share
// read their source's tensors and store nothing.
#pragma once

#include "graph/decoder.h"
#include "session/kv_cells.h"

namespace lumi {

class KvCache final : public KvStore {
  public:
    // Makes the tensors without memory. type: F16, F32 or Q8_0.
    KvCache(const Config & config, const KvCells & cells, ggml_type type);

    uint64_t bytes(const Device & device) const;
    // Takes the memory and fills it with zeros: masked cells take part in products, times zero.
    Status allocate(const Device & device);
    // Instead of allocate, to measure graphs: the tensors count as placed.
    Status pretend_allocated(const Device & device);
    void zero();

    // How many cells graphs that are built from now on read.
    void set_read(int n_full, int n_swa);

    KeyValue append(GraphContext & g, ggml_cgraph * graph, int il, const GraphInputs & inputs,
                    ggml_tensor * k, ggml_tensor * v) override;
    KeyValue read(GraphContext & g, int il) override;

  private:
    ggml_tensor * view(GraphContext & g, ggml_tensor * cache, const LayerConfig & layer) const;

    const Config * config_;
    GgmlContext context_;
    GgmlBuffer buffer_;
    std::vector<KeyValue> layers_;  // [n_kv, n_cells] each; null for layers that share
    int read_full_ = 0;
    int read_swa_ = 0;
};

}  // namespace lumi
