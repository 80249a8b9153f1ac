// See tiny_model.h.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace lumi::test {
namespace {

std::string fixture(const std::string & file) {
    return std::string(LUMI_SOURCE_DIR) + "/tests/parity/" + file;
}

GgufFile open(const std::string & file) {
    Result<GgufFile> opened = GgufFile::open(fixture(file));
    if (!opened.ok()) {
        ADD_FAILURE() << opened.error().message;
        std::abort();
    }
    return std::move(opened).value();
}

template <typename T> void set(ggml_tensor * t, const std::vector<T> & data) {
    if (t == nullptr) {
        return;
    }
    ASSERT_EQ(ggml_nbytes(t), data.size() * sizeof(T)) << t->name;
    if (t->buffer != nullptr) {  // an input nothing reads has no memory
        ggml_backend_tensor_set(t, data.data(), 0, ggml_nbytes(t));
    }
}

Floats get(const ggml_tensor * t) {
    Floats data(static_cast<size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, data.data(), 0, data.size() * sizeof(float));
    return data;
}

std::map<std::string, Floats> floats_of(const GgufFile & file) {
    std::map<std::string, Floats> tensors;
    for (const TensorInfo & tensor : file.tensors()) {
        Floats data(tensor.n_bytes / sizeof(float));
        std::memcpy(data.data(), file.tensor_data(tensor).data(), tensor.n_bytes);
        tensors[tensor.name] = std::move(data);
    }
    return tensors;
}

// K and V stay in the graph: a cache that holds exactly this batch.
class GraphStore : public KvStore {
  public:
    KeyValue append(GraphContext &, ggml_cgraph * graph, int il, const GraphInputs &,
                    ggml_tensor * k, ggml_tensor * v) override {
        ggml_build_forward_expand(graph, k);
        ggml_build_forward_expand(graph, v);
        return kept_[il] = {k, v};
    }
    KeyValue read(GraphContext &, int il) override { return kept_.at(il); }

  private:
    std::map<int, KeyValue> kept_;
};

Floats mask_of(const std::vector<int32_t> & rows, size_t n_tokens, int window) {
    Floats mask(rows.size() * n_tokens, -std::numeric_limits<float>::infinity());
    for (size_t r = 0; r < rows.size(); ++r) {
        for (int j = 0; j <= rows[r]; ++j) {
            if (window == 0 || rows[r] - j < window) {
                mask[r * n_tokens + static_cast<size_t>(j)] = 0.0F;
            }
        }
    }
    return mask;
}

GraphShape shape_of(size_t n_tokens, size_t n_rows) {
    const int n = static_cast<int>(n_tokens);
    return {n, static_cast<int>(n_rows), n, n};
}

}  // namespace

std::vector<int32_t> all_rows(size_t n) {
    std::vector<int32_t> rows(n);
    for (size_t i = 0; i < n; ++i) {
        rows[i] = static_cast<int32_t>(i);
    }
    return rows;
}

double relative_l2(const Floats & got, const Floats & wanted) {
    double difference = 0;
    double size = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
        const double d = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
        difference += d * d;
        size += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    const double error = std::sqrt(difference / std::max(size, 1e-60));
    return got.size() == wanted.size() && std::isfinite(error) ? error : 1e30;
}

TinyModel load_tiny(const std::string & name, const std::string & device) {
    ModelOptions options;
    options.device = device;
    options.n_threads = 1;  // tiny graphs: a second thread only waits
    options.repack = false;
    Result<std::unique_ptr<Model>> loaded = Model::load(open(name + ".gguf"), options);
    if (!loaded.ok()) {
        ADD_FAILURE() << loaded.error().message;
        std::abort();
    }
    TinyModel tiny;
    tiny.model = std::move(loaded).value();
    tiny.config = tiny.model->config();
    tiny.weights = tiny.model->plain_weights();
    return tiny;
}

Reference load_reference(const std::string & name) {
    const GgufFile file = open(name + "-gradients.gguf");
    Reference r;
    r.tokens = file.get_i32s("tokens").value();
    const std::vector<int32_t> targets = file.get_i32s("supervised").value();
    for (const int32_t target : targets) {
        r.rows.push_back(target - 1);
    }
    r.logit_rows = file.get_i32s("logit_rows").value();
    r.loss_sum = file.get_f32("loss_sum").value();
    r.base_loss_sum = file.get_f32("base_loss_sum").value();
    r.tensors = floats_of(file);
    for (const TensorInfo & tensor : file.tensors()) {
        r.shapes[tensor.name] = {tensor.ne[0], tensor.ne[1]};
    }
    const auto rank = r.shapes.at("blk.0.attn_q.weight.lora_a")[1];
    r.scale = file.get_f32("adapter.lora.alpha").value() / static_cast<float>(rank);
    return r;
}

Expected load_expected(const std::string & name) {
    const GgufFile file = open(name);
    Expected expected;
    expected.loss_sum = file.get_f32("loss_sum").value();
    if (file.has("dropout")) {
        expected.dropout = file.get_f32("dropout").value();
    }
    expected.tensors = floats_of(file);
    return expected;
}

Samples load_samples(const std::string & name) {
    const GgufFile file = open(name);
    return {file.get_i32s("lengths").value(), file.get_i32s("tokens").value(),
            file.get_f32s("target_weights").value(),
            static_cast<double>(file.get_f32("loss_sum").value()), floats_of(file)};
}

TinyAdapter make_adapter(const Reference & reference, const Device & device, int lowest) {
    TinyAdapter adapter;
    adapter.context.reset(ggml_init({4096 * ggml_tensor_overhead(), nullptr, true}));
    std::vector<std::pair<ggml_tensor *, const Floats *>> values;
    const auto make = [&](const std::string & name) {
        const std::vector<int64_t> & ne = reference.shapes.at(name);
        ggml_tensor * t = ggml_new_tensor_2d(adapter.context.get(), GGML_TYPE_F32, ne[0], ne[1]);
        ggml_set_name(t, name.c_str());
        values.emplace_back(t, &reference.tensors.at(name));
        return t;
    };
    for (const auto & [name, data] : reference.tensors) {
        const size_t end = name.rfind(".lora_a");
        TrainablePair pair;
        if (end == std::string::npos || name.rfind("grad.", 0) == 0) {
            continue;
        }
        const std::string weight = name.substr(0, end);
        EXPECT_TRUE(parse_module_weight_name(weight, pair.layer, pair.module)) << weight;
        pair.lora = {make(weight + ".lora_a"), make(weight + ".lora_b"), reference.scale};
        adapter.view.add(pair.layer, pair.module, pair.lora);
        if (pair.layer >= lowest) {
            pair.grad_a = ggml_dup_tensor(adapter.context.get(), pair.lora.a);
            pair.grad_b = ggml_dup_tensor(adapter.context.get(), pair.lora.b);
            adapter.pairs.push_back(pair);
        }
    }
    adapter.buffer = std::move(device.allocate(adapter.context.get()).value());
    for (const auto & [tensor, data] : values) {
        set(tensor, *data);
    }
    return adapter;
}

int most_adapters(const LoraView & view, int n_layer) {
    size_t most = 1;
    for (int il = 0; il < n_layer; ++il) {
        for (int m = 0; m < kModuleCount; ++m) {
            most = std::max(most, view.find(il, static_cast<Module>(m)).size());
        }
    }
    return static_cast<int>(most);
}

TransposedCopies::TransposedCopies(const Weights & weights, const Device & device) {
    context_.reset(ggml_init({1024 * ggml_tensor_overhead(), nullptr, true}));
    const auto add = [&](const ggml_tensor * weight) {
        if (weight != nullptr) {
            copies_[weight] =
                ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, weight->ne[1], weight->ne[0]);
        }
    };
    add(weights.output);
    for (const LayerWeights & layer : weights.layers) {
        for (const ggml_tensor * weight : layer.linear) {
            add(weight);
        }
    }
    buffer_ = std::move(device.allocate(context_.get()).value());
    for (const auto & [weight, copy] : copies_) {
        const auto n_in = static_cast<size_t>(weight->ne[0]);
        const auto n_out = static_cast<size_t>(weight->ne[1]);
        std::vector<std::byte> raw(ggml_nbytes(weight));
        ggml_backend_tensor_get(weight, raw.data(), 0, raw.size());
        Floats plain(n_in * n_out);
        if (weight->type == GGML_TYPE_F32) {
            std::memcpy(plain.data(), raw.data(), raw.size());
        } else {
            ggml_get_type_traits(weight->type)
                ->to_float(raw.data(), plain.data(), static_cast<int64_t>(plain.size()));
        }
        Floats flipped(plain.size());
        for (size_t o = 0; o < n_out; ++o) {
            for (size_t i = 0; i < n_in; ++i) {
                flipped[i * n_out + o] = plain[o * n_in + i];
            }
        }
        set(copy, flipped);
    }
}

ggml_tensor * TransposedCopies::find(const ggml_tensor * weight) const {
    const auto found = copies_.find(weight);
    return found == copies_.end() ? nullptr : found->second;
}

void fill_inputs(const GraphInputs & inputs, const TinyModel & tiny,
                 const std::vector<int32_t> & tokens, const std::vector<int32_t> & rows,
                 int window) {
    const Config & c = tiny.config;
    const int cut = c.last_kv_layer();
    Floats embd(static_cast<size_t>(c.n_embd) * tokens.size());
    ASSERT_TRUE(tiny.model->gather_embeddings(tokens, embd).ok());
    set(inputs.embd, embd);
    std::vector<int32_t> wanted;
    for (const int32_t row : rows) {
        wanted.push_back(tokens[static_cast<size_t>(row)]);
    }
    const auto gather_ple = [&](ggml_tensor * t, const std::vector<int32_t> & ids, int first,
                                int count) {
        if (t != nullptr) {
            Floats ple(static_cast<size_t>(c.n_ple * count) * ids.size());
            ASSERT_TRUE(tiny.model->gather_ple(ids, first, count, ple).ok());
            set(t, ple);
        }
    };
    gather_ple(inputs.ple_low, tokens, 0, cut);
    gather_ple(inputs.ple_high, wanted, cut, c.n_layer - cut);
    set(inputs.pos, all_rows(tokens.size()));
    if (inputs.rows != nullptr) {
        set(inputs.rows, rows);
        set(inputs.pos_rows, rows);
        set(inputs.mask_full_rows, mask_of(rows, tokens.size(), 0));
        set(inputs.mask_swa_rows, mask_of(rows, tokens.size(), window));
    }
    set(inputs.mask_full, mask_of(all_rows(tokens.size()), tokens.size(), 0));
    set(inputs.mask_swa, mask_of(all_rows(tokens.size()), tokens.size(), window));
}

namespace {

TrainGraphOptions graph_options(const RunOptions & options, const TransposedCopies & copies) {
    TrainGraphOptions graph;
    graph.products = options.products;
    graph.recompute = options.recompute;
    graph.loss_chunk_rows = options.chunk;
    graph.dropout = options.dropout;
    graph.transposed = [&](const ggml_tensor * w) { return copies.find(w); };
    return graph;
}

void fill_loss_inputs(const TrainGraph & train, const TinyModel & tiny, const Reference & reference,
                      const std::vector<int32_t> & rows, const RunOptions & options) {
    std::vector<int32_t> labels;
    for (const int32_t row : rows) {
        labels.push_back(reference.tokens[static_cast<size_t>(row) + 1]);
    }
    std::vector<int32_t> cells(labels.size());
    fill_label_cells(labels, tiny.config.n_vocab, options.chunk, cells);
    set(train.label_cells, cells);
    set(train.weights, Floats(labels.size(), 1.0F));
    set(train.loss_scale, Floats{options.loss_scale});
    if (train.dropout != nullptr) {
        Floats factors = options.dropout_factors;
        if (factors.empty()) {
            factors.resize(static_cast<size_t>(ggml_nelements(train.dropout)));
            fill_dropout(1, options.dropout, factors);
        }
        set(train.dropout, factors);
    }
}

void collect(RunResult & result, const TrainGraph & train, const TinyAdapter & adapter,
             float loss_scale) {
    result.loss_sum = get(train.loss_sum)[0];
    result.row_loss = get(train.row_loss);
    for (const TrainablePair & pair : adapter.pairs) {
        for (const auto & [lora, gradient] :
             {std::pair(pair.lora.a, pair.grad_a), std::pair(pair.lora.b, pair.grad_b)}) {
            Floats values = get(gradient);
            for (float & x : values) {
                x /= loss_scale;
            }
            result.gradients[lora->name] = std::move(values);
        }
    }
}

}  // namespace

RunResult run_training(const TinyModel & tiny, const Reference & reference, TinyAdapter & adapter,
                       const RunOptions & options) {
    RunResult result;
    const Device & device = tiny.model->device();
    const TransposedCopies copies(tiny.weights, device);
    const std::vector<int32_t> rows =
        options.every_row ? all_rows(reference.tokens.size() - 1) : reference.rows;
    const GraphShape shape = shape_of(reference.tokens.size(), rows.size());
    const TrainGraphOptions graph = graph_options(options, copies);
    const size_t n_nodes = train_graph_nodes(tiny.config, shape, graph,
                                             most_adapters(adapter.view, tiny.config.n_layer));
    const GgmlContext context(ggml_init({graph_context_bytes(n_nodes), nullptr, true}));
    const DecoderModel model = {&tiny.config, &tiny.weights, &adapter.view};
    const std::span<const TrainablePair> trainable =
        options.learn ? adapter.pairs : std::span<const TrainablePair>();
    Result<TrainGraph> built = build_train_graph(context.get(), model, shape, trainable, graph);
    if (!built.ok()) {
        ADD_FAILURE() << built.error().message;
        return result;
    }
    const TrainGraph & train = *built;
    result.n_nodes = ggml_graph_n_nodes(train.graph);
    for (int i = 0; i < result.n_nodes; ++i) {
        std::string why;
        result.ops.insert(ggml_graph_node(train.graph, i)->op);
        if (!in_allowed_set(ggml_graph_node(train.graph, i), why)) {
            result.outside_allowed_set.push_back(why);
        }
    }
    const Status fits = device.preflight(train.graph);
    EXPECT_TRUE(fits.ok()) << (fits.ok() ? "" : fits.error().message);
    if (options.build_only) {
        return result;
    }
    const GgmlAllocator allocator(ggml_gallocr_new(device.buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), train.graph));
    result.compute_bytes = ggml_gallocr_get_buffer_size(allocator.get(), 0);

    fill_inputs(train.inputs, tiny, reference.tokens, rows,
                options.window < 0 ? tiny.config.window : options.window);
    fill_loss_inputs(train, tiny, reference, rows, options);
    for (const TrainablePair & pair : adapter.pairs) {
        for (ggml_tensor * t : {pair.grad_a, pair.grad_b}) {
            set(t, Floats(static_cast<size_t>(ggml_nelements(t))));
        }
    }
    const Status computed = device.compute(train.graph);
    EXPECT_TRUE(computed.ok()) << (computed.ok() ? "" : computed.error().message);
    collect(result, train, adapter, options.loss_scale);
    return result;
}

Floats run_logits(const TinyModel & tiny, const std::vector<int32_t> & tokens,
                  const std::vector<int32_t> & rows, const LoraView * loras, bool differentiable) {
    const Device & device = tiny.model->device();
    constexpr size_t kNodes = 4096;
    const GgmlContext context(ggml_init({graph_context_bytes(kNodes), nullptr, true}));
    GraphContext g;
    g.ctx = context.get();
    g.differentiable = differentiable;
    const GraphInputs inputs =
        make_inputs(context.get(), tiny.config, shape_of(tokens.size(), rows.size()), false, false);
    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), kNodes, false);
    GraphStore store;
    const DecoderModel model = {&tiny.config, &tiny.weights, loras};
    ggml_tensor * logits = build_inference_graph(g, graph, model, inputs, store);
    const GgmlAllocator allocator(ggml_gallocr_new(device.buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph));
    fill_inputs(inputs, tiny, tokens, rows, tiny.config.window);
    EXPECT_TRUE(device.compute(graph).ok());
    return logits == nullptr ? Floats() : get(logits);
}

}  // namespace lumi::test
