// What a backend or the tape lacks refuses a training graph before anything runs, by name
// (cases/training.md L10, L43); and every node of every portable graph is one that all backends
// have.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lumi::test {
namespace {

class TrainingGraphs : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, TrainingGraphs,
                         testing::Values("tiny-gemma4", "tiny-gemma4-kv", "tiny-gemma3",
                                         "tiny-qwen3"),
                         [](const auto & test) {
                             std::string name = test.param + 5;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// A graph of a few supervised rows with everything on, kept so that it can be asked about.
struct Built {
    std::unique_ptr<TransposedCopies> copies;
    GgmlContext context;
    TrainGraph train;
};

Built build(const TinyModel & tiny, const TinyAdapter & adapter, const Reference & reference) {
    Built built;
    built.copies = std::make_unique<TransposedCopies>(tiny.weights, tiny.model->device());
    TrainGraphOptions options;
    options.dropout = 0.1F;
    options.transposed = [&](const ggml_tensor * w) { return built.copies->find(w); };
    const int n = static_cast<int>(reference.tokens.size());
    const GraphShape shape = {n, static_cast<int>(reference.rows.size()), n, n};
    const size_t n_nodes = train_graph_nodes(tiny.config, shape, options);
    built.context.reset(ggml_init({graph_context_bytes(n_nodes), nullptr, true}));
    const DecoderModel model = {&tiny.config, &tiny.weights, &adapter.view};
    Result<TrainGraph> graph =
        build_train_graph(built.context.get(), model, shape, adapter.pairs, options);
    EXPECT_TRUE(graph.ok()) << graph.error().message;
    built.train = std::move(graph).value();
    return built;
}

TEST_P(TrainingGraphs, BackendThatLacksAnOperationIsRefusedByItsName) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    const Built built = build(tiny, adapter, reference);
    std::map<std::string, int> described;  // "MUL_MAT", "SIGMOID": how often
    for (int i = 0; i < ggml_graph_n_nodes(built.train.graph); ++i) {
        ++described[ggml_op_desc(ggml_graph_node(built.train.graph, i))];
    }
    EXPECT_GT(described.size(), 15U);
    for (const auto & [lacking, count] : described) {
        const Status status = preflight(built.train.graph, "Mock0", [&](const ggml_tensor * node) {
            return std::string(ggml_op_desc(node)) != lacking;
        });
        ASSERT_FALSE(status.ok()) << lacking;
        EXPECT_EQ(status.error().kind, ErrorKind::unsupported);
        EXPECT_EQ(status.error().message.rfind("device Mock0 cannot run " + lacking + " of ", 0),
                  0U)
            << status.error().message;
    }
    EXPECT_TRUE(
        preflight(built.train.graph, "Mock0", [](const ggml_tensor *) { return true; }).ok());
}

// Each way to build a training graph, walked node by node against the table and the device.
TEST_P(TrainingGraphs, EveryNodeWithEveryOptionIsInTheAllowedSet) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    std::set<ggml_op> ops;
    int graphs = 0;
    for (const int lowest : {0, 4}) {
        TinyAdapter adapter = make_adapter(reference, tiny.model->device(), lowest);
        for (int bits = 0; bits < 16; ++bits) {
            RunOptions options;
            options.build_only = true;
            options.recompute = (bits & 1) != 0;
            options.dropout = (bits & 2) != 0 ? 0.1F : 0.0F;
            options.every_row = (bits & 4) != 0;
            options.learn = (bits & 8) == 0;
            options.chunk = 8;
            const RunResult run = run_training(tiny, reference, adapter, options);
            EXPECT_GT(run.n_nodes, 100);
            EXPECT_TRUE(run.outside_allowed_set.empty()) << run.outside_allowed_set.front();
            ops.insert(run.ops.begin(), run.ops.end());
            ++graphs;
        }
    }
    std::printf("%s: %d graphs of", GetParam(), graphs);
    for (const ggml_op op : ops) {
        std::printf(" %s", ggml_op_name(op));
    }
    std::printf("\n");
}

// The panels' products are the only nodes outside the set, and only the CPU gets them.
TEST_P(TrainingGraphs, PanelsAreCustomOperationsAndNothingElse) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    RunOptions options;
    options.build_only = true;
    options.products = Products::panels;
    const RunResult run = run_training(tiny, reference, adapter, options);
    EXPECT_FALSE(run.outside_allowed_set.empty());
    for (const std::string & why : run.outside_allowed_set) {
        EXPECT_EQ(why.rfind("CUSTOM", 0), 0U) << why;
    }
}

}  // namespace
}  // namespace lumi::test
