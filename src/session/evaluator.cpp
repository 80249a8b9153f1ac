// From a batch of tokens to a computed graph: shape, graph, inputs, run.
#include "session/evaluator.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace lumi {
namespace {

// Tensors one layer makes, with some room, and one LoRA pair (two products, scale, add).
constexpr size_t kTensorsPerLayer = 128;
constexpr size_t kTensorsPerPair = 6;
constexpr size_t kTensorsBeside = 256;

// A typed view of a buffer that only grows.
template <typename T> std::span<T> staged(std::vector<std::byte> & buffer, size_t n) {
    if (buffer.size() < n * sizeof(T)) {
        buffer.resize(n * sizeof(T));
    }
    return {reinterpret_cast<T *>(buffer.data()), n};
}

void set(ggml_tensor * tensor, const void * data) {
    ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
}

}  // namespace

bool Evaluator::Key::operator==(const Key & other) const {
    return shape.n_tokens == other.shape.n_tokens && shape.n_rows == other.shape.n_rows &&
           shape.n_kv_full == other.shape.n_kv_full && shape.n_kv_swa == other.shape.n_kv_swa &&
           loras == other.loras;
}

Evaluator::Evaluator(const Model & model, const KvCells & cells, KvCache & cache, Options options)
    : model_(model), cells_(cells), cache_(cache), options_(options),
      allocator_(ggml_gallocr_new(model.device().buffer_type())) {}

void Evaluator::set_loras(const LoraView * loras, int n_adapters) {
    loras_ = loras;
    n_adapters_ = n_adapters;
    ++lora_generation_;
}

GraphShape Evaluator::shape_of(int n_tokens, int n_rows, int end) const {
    return {n_tokens, n_rows, cells_.read_full(end), cells_.read_swa(end)};
}

// The graph of a shape, without memory for it.
Status Evaluator::build(const GraphShape & shape) {
    const Config & config = model_.config();
    const size_t n_layer = config.layers.size();
    const size_t max_nodes =
        kTensorsBeside + n_layer * (kTensorsPerLayer + kTensorsPerPair * kModuleCount *
                                                           static_cast<size_t>(n_adapters_));
    const size_t arena_bytes =
        ggml_tensor_overhead() * max_nodes + ggml_graph_overhead_custom(max_nodes, false);
    allocated_ = false;
    context_.reset();
    arena_.resize(std::max(arena_.size(), arena_bytes));
    context_.reset(ggml_init({arena_.size(), arena_.data(), true}));
    graph_ = ggml_new_graph_custom(context_.get(), max_nodes, false);

    GraphContext g;
    g.ctx = context_.get();
    g.flash = options_.flash;
    const DecoderModel decoder = {
        &config, options_.plain_weights ? &model_.plain_weights() : &model_.inference_weights(),
        loras_};
    cache_.set_read(shape.n_kv_full, shape.n_kv_swa);
    inputs_ = make_inputs(g.ctx, config, shape, true, options_.flash);
    logits_ = build_inference_graph(g, graph_, decoder, inputs_, cache_);
    built_ = {shape, lora_generation_};
    if (loras_ != nullptr && shape.n_rows > 0) {  // without rows the layers above stay unbuilt
        LUMI_TRY(loras_->check_applied(graph_));
    }
    return model_.device().preflight(graph_);
}

Result<uint64_t> Evaluator::measure(int n_tokens, Wanted wanted) {
    const int n_rows = wanted == Wanted::all ? n_tokens : wanted == Wanted::last ? 1 : 0;
    LUMI_TRY(build(shape_of(n_tokens, n_rows, cells_.n_full())));
    const GgmlAllocator scratch(ggml_gallocr_new(model_.device().buffer_type()));
    size_t bytes = 0;
    ggml_gallocr_reserve_n_size(scratch.get(), graph_, nullptr, nullptr, &bytes);
    return uint64_t{bytes};
}

Status Evaluator::reserve(int n_tokens, Wanted wanted) {
    const int n_rows = wanted == Wanted::all ? n_tokens : wanted == Wanted::last ? 1 : 0;
    LUMI_TRY(build(shape_of(n_tokens, n_rows, cells_.n_full())));
    if (!ggml_gallocr_reserve(allocator_.get(), graph_)) {
        return Error{ErrorKind::out_of_memory,
                     "device " + model_.device().name() + " could not allocate the compute buffer"};
    }
    return {};
}

Status Evaluator::run(const Batch & batch) {
    const int n_tokens = static_cast<int>(batch.tokens.size());
    const Key key = {shape_of(n_tokens, batch.n_rows(), batch.first + n_tokens), lora_generation_};
    if (!allocated_ || !(key == built_)) {
        LUMI_TRY(build(key.shape));
        if (!ggml_gallocr_alloc_graph(allocator_.get(), graph_)) {
            return Error{ErrorKind::out_of_memory, "device " + model_.device().name() +
                                                       " could not allocate the compute buffer"};
        }
        allocated_ = true;
    }
    LUMI_TRY(fill_inputs(batch));
    return model_.device().compute(graph_);
}

void Evaluator::read_logits(int row, std::span<float> out) const {
    ggml_backend_tensor_get(logits_, out.data(), static_cast<size_t>(row) * logits_->nb[1],
                            out.size_bytes());
}

uint64_t Evaluator::layer_evaluations(const Batch & batch) const {
    const int n_tokens = static_cast<int>(batch.tokens.size());
    return lumi::layer_evaluations(model_.config(), {n_tokens, batch.n_rows(), 0, 0});
}

// Every input is written before every run: later tensors may have taken its memory.
Status Evaluator::fill_inputs(const Batch & batch) {
    LUMI_TRY(fill_embeddings(batch, batch.tokens.last(static_cast<size_t>(batch.n_rows()))));
    fill_positions(batch);
    fill_masks(batch);
    return {};
}

Status Evaluator::fill_embeddings(const Batch & batch, std::span<const int32_t> wanted) {
    const Config & config = model_.config();
    const int cut = config.last_kv_layer();
    std::span<float> rows =
        staged<float>(staging_, static_cast<size_t>(ggml_nelements(inputs_.embd)));
    LUMI_TRY(model_.gather_embeddings(batch.tokens, rows));
    set(inputs_.embd, rows.data());
    if (inputs_.ple_low != nullptr) {
        rows = staged<float>(staging_, static_cast<size_t>(ggml_nelements(inputs_.ple_low)));
        LUMI_TRY(model_.gather_ple(batch.tokens, 0, cut, rows));
        set(inputs_.ple_low, rows.data());
    }
    if (inputs_.ple_high != nullptr) {
        rows = staged<float>(staging_, static_cast<size_t>(ggml_nelements(inputs_.ple_high)));
        LUMI_TRY(model_.gather_ple(wanted, cut, config.n_layer - cut, rows));
        set(inputs_.ple_high, rows.data());
    }
    return {};
}

void Evaluator::fill_positions(const Batch & batch) {
    const size_t n = batch.tokens.size();
    const std::span<int32_t> positions = staged<int32_t>(staging_, n);
    for (size_t i = 0; i < n; ++i) {
        positions[i] = batch.first + static_cast<int32_t>(i);
    }
    set(inputs_.pos, positions.data());
    if (inputs_.rows != nullptr) {
        const int32_t last = static_cast<int32_t>(n) - 1;
        const int32_t last_position = batch.first + last;
        set(inputs_.rows, &last);
        set(inputs_.pos_rows, &last_position);
    }
    const auto fill_cells = [&](ggml_tensor * cells, int n_cells) {
        if (cells != nullptr) {
            const std::span<int64_t> ids = staged<int64_t>(staging_, n);
            for (size_t i = 0; i < n; ++i) {
                ids[i] = (batch.first + static_cast<int64_t>(i)) % n_cells;
            }
            set(cells, ids.data());
        }
    };
    fill_cells(inputs_.cells_full, cells_.n_full());
    fill_cells(inputs_.cells_swa, cells_.n_swa());
}

template <typename T>
void Evaluator::fill_mask(ggml_tensor * mask, bool swa, int first, int n_rows) {
    constexpr bool is_float = std::is_same_v<T, float>;
    constexpr T kSeen = 0;
    T hidden = 0xFC00;  // -infinity as F16
    if constexpr (is_float) {
        hidden = -std::numeric_limits<float>::infinity();
    }
    const std::span<T> out = staged<T>(staging_, static_cast<size_t>(ggml_nelements(mask)));
    const int n_read = static_cast<int>(mask->ne[0]);
    if (swa) {
        cells_.fill_mask_swa<T>(first, n_rows, n_read, kSeen, hidden, out);
    } else {
        cells_.fill_mask_full<T>(first, n_rows, n_read, kSeen, hidden, out);
    }
    set(mask, out.data());
}

void Evaluator::fill_masks(const Batch & batch) {
    const int n_tokens = static_cast<int>(batch.tokens.size());
    const auto fill = [&](ggml_tensor * mask, bool swa, int n_rows) {
        if (mask == nullptr) {
            return;
        }
        const int first = batch.first + n_tokens - n_rows;
        if (mask->type == GGML_TYPE_F16) {
            fill_mask<uint16_t>(mask, swa, first, n_rows);
        } else {
            fill_mask<float>(mask, swa, first, n_rows);
        }
    };
    fill(inputs_.mask_full, false, n_tokens);
    fill(inputs_.mask_swa, true, n_tokens);
    if (inputs_.mask_full_rows != inputs_.mask_full) {
        fill(inputs_.mask_full_rows, false, batch.n_rows());
    }
    if (inputs_.mask_swa_rows != inputs_.mask_swa) {
        fill(inputs_.mask_swa_rows, true, batch.n_rows());
    }
}

}  // namespace lumi
