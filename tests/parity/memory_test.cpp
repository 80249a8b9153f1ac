// With recompute a step holds one checkpoint a layer plus the activations of one layer, however
// deep the model is; and the context's size never falls short.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

namespace lumi::test {
namespace {

// A gemma4-like model without data: planning needs shapes only.
struct Shapes {
    GgmlContext context;
    Config config;
    Weights weights;
    LoraView view;
    std::vector<TrainablePair> pairs;
    std::map<const ggml_tensor *, ggml_tensor *> transposed;
};

ggml_tensor * tensor(Shapes & s, int64_t ne0, int64_t ne1 = 1) {
    ggml_tensor * t = ggml_new_tensor_2d(s.context.get(), GGML_TYPE_F32, ne0, ne1);
    t->data = s.context.get();  // counts as allocated: never dereferenced in a plan
    return t;
}

void add_module(Shapes & s, int il, Module module, int64_t n_in, int64_t n_out) {
    ggml_tensor * weight = tensor(s, n_in, n_out);
    s.weights.layers[static_cast<size_t>(il)].linear[static_cast<size_t>(module)] = weight;
    s.transposed[weight] = tensor(s, n_out, n_in);
    TrainablePair pair;
    pair.layer = il;
    pair.module = module;
    pair.lora = {tensor(s, n_in, 4), tensor(s, 4, n_out), 2.0F};
    pair.grad_a = tensor(s, n_in, 4);
    pair.grad_b = tensor(s, 4, n_out);
    s.view.add(il, module, pair.lora);
    s.pairs.push_back(pair);
}

Shapes make_shapes(int n_layer, int n_shared) {
    Shapes s;
    s.context.reset(ggml_init(
        {static_cast<size_t>(n_layer) * 128 * ggml_tensor_overhead() + 8192, nullptr, true}));
    s.config.n_layer = n_layer;
    s.config.n_embd = 64;
    s.config.n_vocab = 100;
    s.config.window = 8;
    s.config.softcap = 30;
    s.config.v_norm = true;
    s.weights.layers.resize(static_cast<size_t>(n_layer));
    for (int il = 0; il < n_layer; ++il) {
        LayerConfig layer;
        layer.is_swa = il % 2 == 0;
        layer.has_kv = il < n_layer - n_shared;
        layer.kv_source = layer.has_kv ? il
                                       : n_layer - n_shared - 2 +
                                             (((n_layer - n_shared) % 2 + il) % 2 == 0 ? 0 : 1);
        layer.n_head = 2;
        layer.n_head_kv = 1;
        layer.head_dim = 32;
        layer.n_rot = 32;
        layer.n_ff = 128;
        s.config.layers.push_back(layer);
        LayerWeights & w = s.weights.layers[static_cast<size_t>(il)];
        for (ggml_tensor ** norm :
             {&w.attn_norm, &w.post_attn_norm, &w.ffn_norm, &w.post_ffn_norm}) {
            *norm = tensor(s, 64);
        }
        w.q_norm = tensor(s, 32);
        w.k_norm = tensor(s, 32);
        add_module(s, il, Module::q, 64, 64);
        if (layer.has_kv) {
            add_module(s, il, Module::k, 64, 32);
            add_module(s, il, Module::v, 64, 32);
        }
        add_module(s, il, Module::o, 64, 64);
        add_module(s, il, Module::gate, 64, 128);
        add_module(s, il, Module::up, 64, 128);
        add_module(s, il, Module::down, 128, 64);
    }
    s.weights.output_norm = tensor(s, 64);
    s.weights.output = tensor(s, 64, 100);
    s.transposed[s.weights.output] = tensor(s, 100, 64);
    return s;
}

constexpr int kTokens = 64;

struct Plan {
    size_t bytes = 0;
    size_t context_used = 0;
    size_t context_size = 0;
};

Plan plan(int n_layer, int n_shared, bool recompute) {
    Shapes s = make_shapes(n_layer, n_shared);
    TrainGraphOptions options;
    options.recompute = recompute;
    options.transposed = [&](const ggml_tensor * w) { return s.transposed.at(w); };
    const GraphShape shape = {kTokens, kTokens, kTokens, kTokens};
    const size_t n_nodes = train_graph_nodes(s.config, shape, options);
    const GgmlContext context(ggml_init({graph_context_bytes(n_nodes), nullptr, true}));
    const DecoderModel model = {&s.config, &s.weights, &s.view};
    const Result<TrainGraph> graph =
        build_train_graph(context.get(), model, shape, s.pairs, options);
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    const Device device = std::move(Device::open("cpu", 1).value());
    const GgmlAllocator allocator(ggml_gallocr_new(device.buffer_type()));
    EXPECT_TRUE(ggml_gallocr_reserve(allocator.get(), graph->graph));
    return {ggml_gallocr_get_buffer_size(allocator.get(), 0), ggml_used_mem(context.get()),
            ggml_get_mem_size(context.get())};
}

TEST(TrainingMemory, RecomputeHoldsOneCheckpointALayerAndOneLayer) {
    constexpr size_t kCheckpoint = 64 * kTokens * sizeof(float);
    const size_t two = plan(2, 0, true).bytes;
    const size_t six = plan(6, 0, true).bytes;
    const size_t eighteen = plan(18, 0, true).bytes;
    std::printf("planned bytes: 2 layers %zu, 6 layers %zu, 18 layers %zu, checkpoint %zu\n", two,
                six, eighteen, kCheckpoint);
    EXPECT_LE(six, two + 5 * kCheckpoint);  // one more than the layers: a gap left by the allocator
    EXPECT_LE(eighteen, six + 12 * kCheckpoint);
    // Without recompute every layer keeps its activations.
    EXPECT_GT(plan(18, 0, false).bytes, 4 * eighteen);
}

TEST(TrainingMemory, SharedKeyValueCostsOnlyItsSources) {
    constexpr size_t kCheckpoint = 64 * kTokens * sizeof(float);
    constexpr size_t kKeyValue = 2 * 32 * kTokens * sizeof(float);
    const size_t six = plan(6, 4, true).bytes;
    const size_t eighteen = plan(18, 16, true).bytes;
    // Two sources: K/V and their gradients, however many layers read them.
    EXPECT_LE(eighteen, six + 12 * kCheckpoint + 4 * kKeyValue);
}

TEST(TrainingMemory, ContextIsLargeEnoughAndNotAbsurd) {
    for (const bool recompute : {true, false}) {
        const Plan p = plan(18, 4, recompute);
        EXPECT_LT(p.context_used, p.context_size);
        EXPECT_GT(p.context_used, p.context_size / 4);
    }
}

}  // namespace
}  // namespace lumi::test
