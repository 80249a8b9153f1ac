// Graph building, allocation and input filling of one device run.
#include "train/graph_runner.h"

#include <algorithm>

namespace lumi {

namespace {

constexpr int kLossChunkRows = 128;

bool same_shape(const GraphShape & a, const GraphShape & b) {
    return a.n_tokens == b.n_tokens && a.n_rows == b.n_rows;
}

template <typename T> void set_input(ggml_tensor * tensor, const std::vector<T> & values) {
    if (tensor != nullptr && tensor->buffer != nullptr) {  // an input nothing reads has no memory
        ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
    }
}

int most_adapters(const LoraView & loras, int n_layer) {
    size_t most = 1;
    for (int il = 0; il < n_layer; ++il) {
        for (int m = 0; m < kModuleCount; ++m) {
            most = std::max(most, loras.find(il, static_cast<Module>(m)).size());
        }
    }
    return static_cast<int>(most);
}

}  // namespace

TrainGraphOptions graph_options(const Model & model, bool portable, bool recompute) {
    TrainGraphOptions options;
    options.products = model.device().is_cpu() && !portable ? Products::panels : Products::ggml;
    options.recompute = recompute;
    // One [n_vocab, rows] tensor must fit a single buffer, with room for the few beside it.
    const uint64_t row_bytes = static_cast<uint64_t>(model.config().n_vocab) * sizeof(float);
    const uint64_t fitting = model.device().max_buffer_bytes() / 4 / row_bytes;
    // A chunk then starts at an offset that every device can bind: widths are multiples of 8, too.
    const uint64_t chunk = std::clamp<uint64_t>(fitting, kPaddingUnit, kLossChunkRows);
    options.loss_chunk_rows = static_cast<int>(chunk / kPaddingUnit * kPaddingUnit);
    return options;
}

GraphRunner::GraphRunner(const Model & model, const LoraView & loras,
                         std::span<const TrainablePair> trainable, RunnerOptions options)
    : model_(&model), loras_(loras), trainable_(trainable.begin(), trainable.end()),
      options_(std::move(options)), adapters_(most_adapters(loras, model.config().n_layer)),
      allocator_(ggml_gallocr_new(model.device().buffer_type())),
      sliced_(model.device(), options_.slice_seconds) {}

Result<GraphRunner::BuiltGraph> GraphRunner::build(const GraphShape & shape, bool learn) {
    BuiltGraph built;
    built.shape = shape;
    built.learn = learn;
    const size_t n_nodes = train_graph_nodes(model_->config(), shape, options_.graph, adapters_);
    built.context.reset(ggml_init({graph_context_bytes(n_nodes), nullptr, true}));
    if (!built.context) {
        return Error{ErrorKind::out_of_memory, "no memory for the nodes of a training graph"};
    }
    const DecoderModel decoder{&model_->config(), &model_->plain_weights(), &loras_};
    const std::span<const TrainablePair> none;
    built.graph = LUMI_TRY(build_train_graph(built.context.get(), decoder, shape,
                                             learn ? std::span(trainable_) : none, options_.graph));
    LUMI_TRY(loras_.check_applied(built.graph.graph));
    return built;
}

Result<uint64_t> GraphRunner::measure(const GraphShape & shape, bool learn) {
    const BuiltGraph built = LUMI_TRY(build(shape, learn));
    LUMI_TRY(model_->device().preflight(built.graph.graph));
    const GgmlAllocator measuring(ggml_gallocr_new(model_->device().buffer_type()));
    size_t bytes = 0;
    ggml_gallocr_reserve_n_size(measuring.get(), built.graph.graph, nullptr, nullptr, &bytes);
    return bytes;
}

namespace {

Error no_memory(const Device & device, const GraphShape & shape) {
    return {ErrorKind::out_of_memory, "device " + device.name() + " has no memory for a run of " +
                                          std::to_string(shape.n_tokens) + " tokens"};
}

}  // namespace

Status GraphRunner::reserve(const GraphShape & largest) {
    for (const bool learn : {true, false}) {
        const BuiltGraph built = LUMI_TRY(build(largest, learn));
        if (!ggml_gallocr_reserve(allocator_.get(), built.graph.graph)) {
            return no_memory(model_->device(), largest);
        }
    }
    return {};
}

Status GraphRunner::prepare(const GraphShape & shape, bool learn) {
    if (built_.context && built_.learn == learn && same_shape(built_.shape, shape)) {
        return {};
    }
    built_ = {};  // the old graph's addresses die with the next allocation
    built_ = LUMI_TRY(build(shape, learn));
    ++graphs_built_;
    if (!checked_[learn ? 1 : 0]) {
        LUMI_TRY(model_->device().preflight(built_.graph.graph));
        checked_[learn ? 1 : 0] = true;
    }
    if (!ggml_gallocr_alloc_graph(allocator_.get(), built_.graph.graph)) {
        built_ = {};
        return no_memory(model_->device(), shape);
    }
    return {};
}

Status GraphRunner::fill_inputs(const PackedBatch & batch, float loss_scale) {
    const Config & config = model_->config();
    const GraphInputs & in = built_.graph.inputs;
    const size_t n_tokens = batch.tokens.size();
    const size_t n_rows = batch.rows.size();
    const int cut = config.last_kv_layer();

    std::vector<int32_t> all(n_tokens);
    std::vector<int32_t> row_tokens(n_rows);
    std::vector<int32_t> row_positions(n_rows);
    for (size_t t = 0; t < n_tokens; ++t) {
        all[t] = static_cast<int32_t>(t);
    }
    for (size_t r = 0; r < n_rows; ++r) {
        row_tokens[r] = batch.tokens[static_cast<size_t>(batch.rows[r])];
        row_positions[r] = batch.positions[static_cast<size_t>(batch.rows[r])];
    }

    std::vector<float> values(n_tokens * static_cast<size_t>(config.n_embd));
    LUMI_TRY(model_->gather_embeddings(batch.tokens, values));
    set_input(in.embd, values);
    if (in.ple_low != nullptr) {
        values.resize(static_cast<size_t>(ggml_nelements(in.ple_low)));
        LUMI_TRY(model_->gather_ple(batch.tokens, 0, cut, values));
        set_input(in.ple_low, values);
    }
    if (in.ple_high != nullptr) {
        values.resize(static_cast<size_t>(ggml_nelements(in.ple_high)));
        LUMI_TRY(model_->gather_ple(row_tokens, cut, config.n_layer - cut, values));
        set_input(in.ple_high, values);
    }
    set_input(in.pos, batch.positions);
    if (in.rows != nullptr) {
        set_input(in.rows, batch.rows);
        set_input(in.pos_rows, row_positions);
    }
    const auto set_mask = [&](ggml_tensor * mask, const std::vector<int32_t> & rows, int window) {
        if (mask != nullptr) {
            values.resize(rows.size() * n_tokens);
            fill_mask(batch, rows, window, values);
            set_input(mask, values);
        }
    };
    set_mask(in.mask_full, all, 0);
    set_mask(in.mask_swa, all, config.window);
    if (in.rows != nullptr) {
        set_mask(in.mask_full_rows, batch.rows, 0);
        set_mask(in.mask_swa_rows, batch.rows, config.window);
    }

    std::vector<int32_t> cells(n_rows);
    fill_label_cells(batch.labels, config.n_vocab, options_.graph.loss_chunk_rows, cells);
    set_input(built_.graph.label_cells, cells);
    set_input(built_.graph.weights, batch.weights);
    if (built_.learn) {
        set_input(built_.graph.loss_scale, std::vector<float>{loss_scale});
    }
    return {};
}

void GraphRunner::fill_dropout_factors(uint64_t seed) {
    if (built_.graph.dropout != nullptr) {
        std::vector<float> factors(static_cast<size_t>(ggml_nelements(built_.graph.dropout)));
        fill_dropout(seed, options_.graph.dropout, factors);
        set_input(built_.graph.dropout, factors);
    }
}

Status GraphRunner::begin(const PackedBatch & batch, bool learn, float loss_scale,
                          uint64_t dropout_seed) {
    LUMI_TRY(prepare(batch.shape(), learn));
    LUMI_TRY(fill_inputs(batch, loss_scale));
    fill_dropout_factors(dropout_seed);
    sliced_.start(built_.graph.graph);
    return {};
}

double GraphRunner::loss_sum() const {
    float sum = 0.0F;
    ggml_backend_tensor_get(built_.graph.loss_sum, &sum, 0, sizeof sum);
    return static_cast<double>(sum);
}

std::vector<float> GraphRunner::row_losses() const {
    std::vector<float> losses(static_cast<size_t>(built_.shape.n_rows));
    ggml_backend_tensor_get(built_.graph.row_loss, losses.data(), 0, losses.size() * sizeof(float));
    return losses;
}

}  // namespace lumi
