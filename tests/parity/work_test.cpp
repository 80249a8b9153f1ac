// What a training graph multiplies, product by product: no gradient of a frozen weight, nothing of
// layers below the lowest adapted one twice, and only wanted rows above the last owner of K/V.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lumi::test {
namespace {

// How often a weight is multiplied in each direction, and with how many columns.
struct Uses {
    int forward = 0;
    int backward = 0;
    std::set<int64_t> columns;
};

struct Work {
    std::map<std::pair<int, int>, Uses> of;  // layer and module
    int64_t frozen_flops = 0;
    int64_t other_flops = 0;  // attention, LoRA
    int frozen_gradients = 0;
};

constexpr int kTokens = 40;
constexpr int kRows = 10;

bool is_frozen_shape(const TinyModel & tiny, const ggml_tensor * node) {
    for (const LayerWeights & layer : tiny.weights.layers) {
        for (const ggml_tensor * w : layer.linear) {
            if (w != nullptr && ((node->ne[0] == w->ne[0] && node->ne[1] == w->ne[1]) ||
                                 (node->ne[0] == w->ne[1] && node->ne[1] == w->ne[0]))) {
                return true;
            }
        }
    }
    return false;
}

Work work_of(const TinyModel & tiny, const TinyAdapter & adapter, bool recompute) {
    const TransposedCopies copies(tiny.weights, tiny.model->device());
    TrainGraphOptions options;
    options.recompute = recompute;
    options.transposed = [&](const ggml_tensor * w) { return copies.find(w); };
    const GraphShape shape = {kTokens, kRows, kTokens, kTokens};
    const size_t n_nodes = train_graph_nodes(tiny.config, shape, options);
    const GgmlContext context(ggml_init({graph_context_bytes(n_nodes), nullptr, true}));
    const DecoderModel model = {&tiny.config, &tiny.weights, &adapter.view};
    const Result<TrainGraph> built =
        build_train_graph(context.get(), model, shape, adapter.pairs, options);
    EXPECT_TRUE(built.ok()) << built.error().message;
    Work work;
    std::map<const ggml_tensor *, std::pair<std::pair<int, int>, bool>>
        known;  // weight -> forward?
    for (int il = 0; il < tiny.config.n_layer; ++il) {
        for (int m = 0; m < kModuleCount; ++m) {
            const ggml_tensor * w =
                tiny.weights.layers[static_cast<size_t>(il)][static_cast<Module>(m)];
            if (w != nullptr) {
                known[w] = {{il, m}, true};
                known[copies.find(w)] = {{il, m}, false};
            }
        }
    }
    for (int i = 0; i < ggml_graph_n_nodes(built->graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(built->graph, i);
        if (node->op != GGML_OP_MUL_MAT) {
            continue;
        }
        const int64_t flops = 2 * node->src[0]->ne[0] * ggml_nelements(node);
        const auto found = known.find(node->src[0]);
        if (found == known.end()) {
            work.other_flops += flops;
            work.frozen_gradients += is_frozen_shape(tiny, node) ? 1 : 0;
            continue;
        }
        work.frozen_flops += flops;
        Uses & uses = work.of[found->second.first];
        (found->second.second ? uses.forward : uses.backward) += 1;
        uses.columns.insert(node->ne[1]);
    }
    return work;
}

// Whether the gradient of this map's input serves anything, when all maps of `lowest` and above
// learn: in the lowest layer what q, k and v read comes from below, where nothing learns.
bool needs_input_gradient(int il, int module, int lowest) {
    const auto m = static_cast<Module>(module);
    return il > lowest || (m != Module::q && m != Module::k && m != Module::v);
}

// Whether the adjoint reads this map's output, so that a layer that is rebuilt computes it again:
// the last map's goes straight into the stream when no norm follows.
bool is_rebuilt(const Config & config, Module m) {
    return m != Module::down || config.post_norms;
}

class TrainingWork : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, TrainingWork,
                         testing::Values("tiny-gemma4", "tiny-gemma4-kv", "tiny-gemma3",
                                         "tiny-qwen3"),
                         [](const auto & test) {
                             std::string name = test.param + 5;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(TrainingWork, EveryProductIsCountedAndNoneIsForAFrozenWeightsGradient) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const int cut = tiny.config.last_kv_layer();
    for (const int lowest : {0, 2, 5}) {
        const TinyAdapter adapter = make_adapter(reference, tiny.model->device(), lowest);
        for (const bool recompute : {true, false}) {
            const Work work = work_of(tiny, adapter, recompute);
            EXPECT_EQ(work.frozen_gradients, 0);
            for (const auto & [map, uses] : work.of) {
                const auto & [il, module] = map;
                const std::string name = module_weight_name(il, static_cast<Module>(module)) +
                                         " from layer " + std::to_string(lowest);
                const bool learns = il >= lowest;
                const auto m = static_cast<Module>(module);
                const bool twice = learns && recompute && is_rebuilt(tiny.config, m);
                EXPECT_EQ(uses.forward, twice ? 2 : 1) << name;
                EXPECT_EQ(uses.backward, learns && needs_input_gradient(il, module, lowest) ? 1 : 0)
                    << name;
                const bool all_tokens =
                    il < cut || (il == cut && (m == Module::k || m == Module::v));
                EXPECT_EQ(uses.columns, std::set<int64_t>{all_tokens ? kTokens : kRows}) << name;
            }
        }
    }
}

// The same as one number: twice in + out for each token and pass, nothing more.
TEST_P(TrainingWork, FlopsAreThoseOfThePassesThatMatter) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const int cut = tiny.config.last_kv_layer();
    const TinyAdapter adapter = make_adapter(reference, tiny.model->device(), 0);
    int64_t wanted = 0;
    for (int il = 0; il < tiny.config.n_layer; ++il) {
        for (int module = 0; module < kModuleCount; ++module) {
            const auto m = static_cast<Module>(module);
            const ggml_tensor * w = tiny.weights.layers[static_cast<size_t>(il)][m];
            if (w == nullptr) {
                continue;
            }
            const bool all_tokens = il < cut || (il == cut && (m == Module::k || m == Module::v));
            const int passes = 1 + (needs_input_gradient(il, module, 0) ? 1 : 0);
            wanted += 2 * ggml_nelements(w) * (all_tokens ? kTokens : kRows) * passes;
        }
    }
    EXPECT_EQ(work_of(tiny, adapter, false).frozen_flops, wanted);
}

// An adapter above the owners of K/V: below the cut nothing is done twice, no gradient of K or V
// is formed.
TEST(TrainingWorkOfTheTail, TouchesNothingBelowTheCut) {
    const TinyModel tiny = load_tiny("tiny-gemma4");
    const Reference reference = load_reference("tiny-gemma4");
    const int first = tiny.config.last_kv_layer() + 1;
    const TinyAdapter tail = make_adapter(reference, tiny.model->device(), first);
    const TinyAdapter all = make_adapter(reference, tiny.model->device(), 0);
    const Work work = work_of(tiny, tail, true);
    for (const auto & [map, uses] : work.of) {
        EXPECT_EQ(uses.backward > 0,
                  map.first > first ||
                      (map.first == first && needs_input_gradient(map.first, map.second, first)));
        EXPECT_EQ(uses.forward, map.first >= first ? 2 : 1);
    }
    EXPECT_LT(work.other_flops, work_of(tiny, all, true).other_flops / 2);
}

}  // namespace
}  // namespace lumi::test
