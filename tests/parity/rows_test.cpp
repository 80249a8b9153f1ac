// Tokens whose logits nobody asked for stop after the last K/V projection: that changes no logit,
// and the counter says how much work is left.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace lumi::test {
namespace {

class WantedRows : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, WantedRows,
                         testing::Values("tiny-gemma4", "tiny-gemma3", "tiny-qwen3"),
                         [](const auto & test) { return std::string(test.param + 5); });

TEST_P(WantedRows, DroppingRowsChangesNoLogit) {
    const TinyModel tiny = load_tiny(GetParam());
    const std::vector<int32_t> tokens = load_reference(GetParam()).tokens;
    const auto n_vocab = static_cast<size_t>(tiny.config.n_vocab);
    const Floats all = run_logits(tiny, tokens, all_rows(tokens.size()), nullptr, false);
    ASSERT_EQ(all.size(), n_vocab * tokens.size());
    for (const std::vector<int32_t> & rows :
         {std::vector<int32_t>{39}, std::vector<int32_t>{0}, std::vector<int32_t>{3, 7, 8, 25},
          std::vector<int32_t>{30, 2, 39}}) {
        const Floats few = run_logits(tiny, tokens, rows, nullptr, false);
        ASSERT_EQ(few.size(), n_vocab * rows.size());
        Floats wanted;
        for (const int32_t row : rows) {
            const auto start = all.begin() + static_cast<int64_t>(n_vocab) * row;
            wanted.insert(wanted.end(), start, start + static_cast<int64_t>(n_vocab));
        }
        EXPECT_LT(relative_l2(few, wanted), 1e-5);
    }
}

TEST_P(WantedRows, NoRowsBuildNoLogits) {
    const TinyModel tiny = load_tiny(GetParam());
    const std::vector<int32_t> tokens = load_reference(GetParam()).tokens;
    EXPECT_TRUE(run_logits(tiny, tokens, {}, nullptr, false).empty());
}

TEST(LayerEvaluations, CountsLowerLayersForTokensAndUpperOnesForRows) {
    const TinyModel tiny = load_tiny("tiny-gemma4");  // 8 layers, the last owner of K/V is 4
    EXPECT_EQ(layer_evaluations(tiny.config, {40, 1, 40, 40}), 4U * 40U + 4U * 1U);
    EXPECT_EQ(layer_evaluations(tiny.config, {40, 40, 40, 40}), 8U * 40U);
    EXPECT_EQ(layer_evaluations(tiny.config, {40, 0, 40, 40}), 4U * 40U);
    const TinyModel all_own = load_tiny("tiny-gemma3");  // 7 layers, all own K/V
    EXPECT_EQ(layer_evaluations(all_own.config, {40, 1, 40, 40}), 6U * 40U + 1U);
}

// The graph itself must shrink as the counter says: products of the upper layers have R columns.
TEST(LayerEvaluations, UpperLayersMultiplyOnlyWantedRows) {
    const TinyModel tiny = load_tiny("tiny-gemma4");
    const GgmlContext context(ggml_init({graph_context_bytes(4096), nullptr, true}));
    GraphContext g;
    g.ctx = context.get();
    const GraphShape shape = {40, 1, 40, 40};
    const GraphInputs inputs = make_inputs(context.get(), tiny.config, shape, false, false);
    ggml_cgraph * graph = ggml_new_graph_custom(context.get(), 4096, false);
    const DecoderModel model = {&tiny.config, &tiny.weights, nullptr};
    const StemResult stem = build_stem(g, model, inputs);
    ggml_tensor * hidden = stem.hidden;
    std::vector<KeyValue> own;
    for (int il = 0; il < tiny.config.n_layer; ++il) {
        const auto index = static_cast<size_t>(il);
        const LayerConfig & layer = tiny.config.layers[index];
        const KeyValue source =
            layer.has_kv ? KeyValue() : own[static_cast<size_t>(layer.kv_source)];
        const LayerResult result =
            build_layer(g, graph, model, inputs, il, hidden, stem.ple[index], source, nullptr);
        own.push_back(result.own);
        hidden = result.hidden;
    }
    ggml_build_forward_expand(graph, hidden);
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        for (int il = 0; node->op == GGML_OP_MUL_MAT && il < tiny.config.n_layer; ++il) {
            const LayerWeights & weights = tiny.weights.layers[static_cast<size_t>(il)];
            const bool upper = node->src[0] == weights[Module::gate] ||
                               node->src[0] == weights[Module::q] ||
                               node->src[0] == weights[Module::ple_gate];
            if (upper) {
                EXPECT_EQ(node->ne[1], il < 4 ? 40 : 1) << "layer " << il;
            }
            if (node->src[0] == weights[Module::k] && weights[Module::k] != nullptr) {
                EXPECT_EQ(node->ne[1], 40) << "layer " << il;
                EXPECT_LE(il, 4);
            }
        }
    }
}

}  // namespace
}  // namespace lumi::test
