// Gradients as a training step makes them, through the trainer's packing, masks and accumulation,
// against float64 PyTorch that computed each sample alone. Prints the rows of the table in
// docs/measured.md (tools/gradient_table).
#include "parity/training_case.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lumi::test {
namespace {

constexpr double kTolerance = 1e-3;

class TrainingGradients : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Tiny, TrainingGradients,
                         testing::Values("tiny-gemma4", "tiny-gemma4-kv", "tiny-gemma3",
                                         "tiny-qwen3"),
                         [](const auto & test) {
                             std::string name = test.param + 5;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST_P(TrainingGradients, PackedOrNotRecomputedOrNotMatchFloat64) {
    const TrainingCase c = load_training_case(GetParam());
    ASSERT_GE(c.dataset.samples.size(), 6U);
    for (const bool portable : {false, true}) {
        for (const bool packed : {true, false}) {
            for (const bool recompute : {true, false}) {
                const GradientRun options = {packed, recompute, portable};
                const GradientErrors errors = gradient_errors(c, options);
                print_row(c, portable ? "CPU, ggml" : "CPU, panels", options, errors);
                EXPECT_EQ(errors.tensors, c.gradients.size());
                EXPECT_EQ(errors.graphs, packed ? 1 : 6);
                EXPECT_LT(errors.worst, kTolerance) << errors.worst_name;
                EXPECT_LT(errors.loss, 1e-5);
            }
        }
    }
}

// Samples that see each other, or start at a later position, must not pass for separate ones.
TEST_P(TrainingGradients, SamplesThatSeeEachOtherAreNoticed) {
    const TrainingCase c = load_training_case(GetParam());
    GradientRun options;
    options.damage_masks = true;
    EXPECT_GT(gradient_errors(c, options).worst, 0.1);
}

}  // namespace
}  // namespace lumi::test
