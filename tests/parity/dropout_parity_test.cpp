// Dropout with given factors: loss and gradients against float64 PyTorch with the same factors.
#include "parity/tiny_model.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace lumi::test {
namespace {

class DropoutParity : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, DropoutParity,
                         testing::Values("tiny-gemma4", "tiny-gemma3", "tiny-qwen3"),
                         [](const auto & test) { return std::string(test.param + 5); });

TEST_P(DropoutParity, GradientsWithGivenFactorsMatchFloat64) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const Expected wanted = load_expected(std::string(GetParam()) + "-dropout.gguf");
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    for (const Products products : {Products::ggml, Products::panels}) {
        for (const bool recompute : {true, false}) {
            RunOptions options;
            options.products = products;
            options.recompute = recompute;
            options.dropout = wanted.dropout;
            options.dropout_factors = wanted.tensors.at("factors");
            const RunResult run = run_training(tiny, reference, adapter, options);
            double worst = 0;
            for (const auto & [name, gradient] : run.gradients) {
                worst = std::max(worst, relative_l2(gradient, wanted.tensors.at("grad." + name)));
            }
            std::printf("%s dropout %s recompute %d: loss %.6f (%.6f), worst %.1e\n", GetParam(),
                        products == Products::panels ? "panels" : "portable", recompute ? 1 : 0,
                        static_cast<double>(run.loss_sum), static_cast<double>(wanted.loss_sum),
                        worst);
            EXPECT_EQ(run.gradients.size(), adapter.pairs.size() * 2);
            EXPECT_LT(worst, 1e-3);
            EXPECT_NEAR(run.loss_sum / wanted.loss_sum, 1.0, 1e-5);
        }
    }
}

// The reference must be one that a graph without dropout, or with other factors, does not meet.
TEST_P(DropoutParity, OtherFactorsGiveOtherGradients) {
    const TinyModel tiny = load_tiny(GetParam());
    const Reference reference = load_reference(GetParam());
    const Expected wanted = load_expected(std::string(GetParam()) + "-dropout.gguf");
    TinyAdapter adapter = make_adapter(reference, tiny.model->device());
    for (const float dropout : {0.0F, wanted.dropout}) {
        RunOptions options;
        options.dropout = dropout;  // factors are drawn
        const RunResult run = run_training(tiny, reference, adapter, options);
        for (const auto & [name, gradient] : run.gradients) {
            EXPECT_GT(relative_l2(gradient, wanted.tensors.at("grad." + name)), 1e-2) << name;
        }
    }
}

}  // namespace
}  // namespace lumi::test
