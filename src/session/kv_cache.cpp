// The cache as the graph builder sees it: rows written by cell, views read from the front.
#include "session/kv_cache.h"

namespace lumi {

KvCache::KvCache(const Config & config, const KvCells & cells, ggml_type type)
    : config_(&config),
      context_(
          ggml_init({ggml_tensor_overhead() * (2 * config.layers.size() + 1), nullptr, true})) {
    for (const LayerConfig & layer : config.layers) {
        KeyValue kv;
        if (layer.has_kv) {
            const int n_cells = layer.is_swa ? cells.n_swa() : cells.n_full();
            kv.k = ggml_new_tensor_2d(context_.get(), type, layer.n_kv(), n_cells);
            kv.v = ggml_new_tensor_2d(context_.get(), type, layer.n_kv(), n_cells);
        }
        layers_.push_back(kv);
    }
}

uint64_t KvCache::bytes(const Device & device) const {
    uint64_t sum = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(context_.get()); t != nullptr;
         t = ggml_get_next_tensor(context_.get(), t)) {
        sum += ggml_backend_buft_get_alloc_size(device.buffer_type(), t);
    }
    return sum;
}

Status KvCache::allocate(const Device & device) {
    buffer_ = LUMI_TRY(device.allocate(context_.get()));
    zero();
    return {};
}

Status KvCache::pretend_allocated(const Device & device) {
    buffer_.reset(ggml_backend_buft_alloc_buffer(device.buffer_type(), 0));
    if (!buffer_) {
        return Error{ErrorKind::out_of_memory, "no memory for an empty buffer"};
    }
    for (const KeyValue & kv : layers_) {
        if (kv.k != nullptr) {
            kv.k->buffer = buffer_.get();
            kv.v->buffer = buffer_.get();
        }
    }
    return {};
}

void KvCache::zero() {
    if (buffer_) {
        ggml_backend_buffer_clear(buffer_.get(), 0);
    }
}

void KvCache::set_read(int n_full, int n_swa) {
    read_full_ = n_full;
    read_swa_ = n_swa;
}

KeyValue KvCache::append(GraphContext & g, ggml_cgraph * graph, int il, const GraphInputs & inputs,
                         ggml_tensor * k, ggml_tensor * v) {
    const KeyValue & cache = layers_[static_cast<size_t>(il)];
    const bool is_swa = config_->layers[static_cast<size_t>(il)].is_swa;
    ggml_tensor * cells = is_swa ? inputs.cells_swa : inputs.cells_full;
    const auto store = [&](ggml_tensor * into, ggml_tensor * x) {
        x = ggml_reshape_2d(g.ctx, x, into->ne[0], x->ne[2]);  // [n_kv, T]
        // Expanded here: the reads that follow are views of the cache and name no dependency.
        ggml_build_forward_expand(graph, ggml_set_rows(g.ctx, into, x, cells));
    };
    store(cache.k, k);
    store(cache.v, v);
    return read(g, il);
}

KeyValue KvCache::read(GraphContext & g, int il) {
    const KeyValue & cache = layers_[static_cast<size_t>(il)];
    const LayerConfig & layer = config_->layers[static_cast<size_t>(il)];
    return {view(g, cache.k, layer), view(g, cache.v, layer)};
}

// [head_dim, n_head_kv, N] of the first N cells.
ggml_tensor * KvCache::view(GraphContext & g, ggml_tensor * cache,
                            const LayerConfig & layer) const {
    return ggml_view_3d(g.ctx, cache, layer.head_dim, layer.n_head_kv,
                        layer.is_swa ? read_swa_ : read_full_,
                        ggml_row_size(cache->type, layer.head_dim), cache->nb[1], 0);
}

}  // namespace lumi
