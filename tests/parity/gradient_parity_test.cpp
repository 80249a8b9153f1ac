// Whole tiny gemma4, gemma3 and qwen3 in F32 against frozen float64 numbers: logits, loss and the
// gradient of every adapted tensor, with and without recompute, portable and with panels.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lumi::test {
namespace {

constexpr double kGradientTolerance = 1e-3;

struct Worst {
    double error = 0;
    std::string name;
    size_t tensors = 0;
};

Worst worst_gradient(const RunResult & run, const Reference & reference) {
    Worst worst;
    for (const auto & [name, gradient] : run.gradients) {
        const double error = relative_l2(gradient, reference.tensors.at("grad." + name));
        ++worst.tensors;
        if (error > worst.error) {
            worst.error = error;
            worst.name = name;
        }
    }
    return worst;
}

class ModelParity : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, ModelParity,
                         testing::Values("tiny-gemma4", "tiny-gemma3", "tiny-qwen3"),
                         [](const auto & test) { return std::string(test.param + 5); });

TEST_P(ModelParity, GradientsOfEveryAdaptedTensorMatchFloat64) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    for (const bool recompute : {true, false}) {
        for (const Products products : {Products::ggml, Products::panels}) {
            RunOptions options;
            options.recompute = recompute;
            options.products = products;
            const RunResult run = run_training(tiny, reference, adapter, options);
            const Worst worst = worst_gradient(run, reference);
            std::printf("%s %-8s recompute %d: loss %.6f (%.6f), %zu tensors, worst %.1e %s\n",
                        GetParam(), products == Products::panels ? "panels" : "portable",
                        recompute ? 1 : 0, static_cast<double>(run.loss_sum),
                        static_cast<double>(reference.loss_sum), worst.tensors, worst.error,
                        worst.name.c_str());
            EXPECT_EQ(worst.tensors, adapter.pairs.size() * 2);
            EXPECT_LT(worst.error, kGradientTolerance) << worst.name;
            EXPECT_NEAR(run.loss_sum / reference.loss_sum, 1.0, 1e-5);
        }
    }
}

TEST_P(ModelParity, LogitsMatchFloat64WithAndWithoutAdapter) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    const auto largest_difference = [&](const LoraView * loras, const char * name,
                                        bool differentiable) {
        const Floats logits =
            run_logits(tiny, reference.tokens, reference.logit_rows, loras, differentiable);
        const Floats & wanted = reference.tensors.at(name);
        EXPECT_EQ(logits.size(), wanted.size());
        double largest = 0;
        for (size_t i = 0; i < wanted.size(); ++i) {
            largest = std::max(largest, std::abs(static_cast<double>(logits[i] - wanted[i])));
        }
        return largest;
    };
    const double base = largest_difference(nullptr, "logits", true);
    const double adapted = largest_difference(&adapter.view, "adapted_logits", true);
    const double table = largest_difference(nullptr, "logits", false);
    std::printf(
        "%s: largest logit difference %.1e, with adapter %.1e, with ggml's GELU table %.1e\n",
        GetParam(), base, adapted, table);
    EXPECT_LT(base, 1e-3);
    EXPECT_LT(adapted, 1e-3);
    // ggml's CPU GELU is an F16 table: see README.md for what that costs.
    EXPECT_LT(table, 2e-1);
}

// The loss of the training graph is the loss of the logits that serving computes.
TEST_P(ModelParity, EvaluationLossMatchesFloat64) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter none;
    RunOptions options;
    options.learn = false;
    const RunResult base = run_training(tiny, reference, none, options);
    EXPECT_NEAR(base.loss_sum / reference.base_loss_sum, 1.0, 1e-5);
    EXPECT_EQ(base.row_loss.size(), reference.rows.size());
}

// Adapting upper layers only: their gradients are unchanged, and the graph is smaller because
// nothing below is differentiated.
TEST_P(ModelParity, BackwardStopsAtTheLowestAdaptedLayer) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter all = make_adapter(reference, tiny.model->device());
    const int n_nodes = run_training(tiny, reference, all, {}).n_nodes;
    for (const int lowest : {1, 3, 4, 6}) {
        TinyAdapter upper = make_adapter(reference, tiny.model->device(), lowest);
        const RunResult run = run_training(tiny, reference, upper, {});
        const Worst worst = worst_gradient(run, reference);
        EXPECT_EQ(worst.tensors, upper.pairs.size() * 2);
        EXPECT_LT(worst.error, kGradientTolerance) << worst.name << " from layer " << lowest;
        EXPECT_LT(run.n_nodes, n_nodes);
    }
}

TEST_P(ModelParity, LossScaleIsDividedOutExactly) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    RunOptions options;
    const RunResult plain = run_training(tiny, reference, adapter, options);
    options.loss_scale = 4096.0F;
    const RunResult scaled = run_training(tiny, reference, adapter, options);
    EXPECT_EQ(plain.gradients, scaled.gradients);  // a power of two changes no bit
    EXPECT_EQ(plain.loss_sum, scaled.loss_sum);
}

TEST_P(ModelParity, EveryNodeOfThePortableGraphIsAllowed) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    for (const bool recompute : {true, false}) {
        RunOptions options;
        options.recompute = recompute;
        const RunResult run = run_training(tiny, reference, adapter, options);
        EXPECT_GT(run.n_nodes, 500);
        EXPECT_TRUE(run.outside_allowed_set.empty()) << run.outside_allowed_set.front();
    }
    RunOptions panels;
    panels.products = Products::panels;
    EXPECT_FALSE(run_training(tiny, reference, adapter, panels).outside_allowed_set.empty());
}

}  // namespace
}  // namespace lumi::test
