// Whole runs with and without packing: the same steps, whether samples share a graph run or not.
#include "tiny_training.h"

namespace lumi {

namespace {

struct Both {
    TrainingRun packed;
    TrainingRun apart;
};

Both train_both(const Dataset & dataset, int steps, int batch) {
    const auto model = load_tiny("tiny-gemma4.gguf");
    TrainOptions options = quick_options();
    options.window_tokens = 128;
    options.batch_samples = batch;
    options.max_steps = steps;
    Both both;
    options.packing = true;
    both.packed = run_training(*model, options, dataset);
    options.packing = false;
    both.apart = run_training(*model, options, dataset);
    return both;
}

void expect_same(const Both & both, size_t steps) {
    ASSERT_EQ(both.packed.error, "");
    ASSERT_EQ(both.apart.error, "");
    ASSERT_EQ(both.packed.steps.size(), steps);
    ASSERT_EQ(both.apart.steps.size(), steps);
    for (size_t i = 0; i < steps; ++i) {
        const double loss = both.apart.steps[i].loss;
        // The first step differs by rounding only; AdamW's division by small moments spreads it.
        EXPECT_NEAR(both.packed.steps[i].loss, loss, (i == 0 ? 1e-6 : 1e-3) * loss) << i;
        EXPECT_NEAR(both.packed.steps[i].grad_norm, both.apart.steps[i].grad_norm,
                    1e-3 * both.apart.steps[i].grad_norm)
            << i;
    }
    EXPECT_LT(adapter_distance(both.packed.adapter(), both.apart.adapter()), 1e-3);
}

TEST(PackedTraining, GivesTheStepsOfTrainingApart) {
    expect_same(train_both(rule_dataset({24, 9, 31, 12, 17}), 6, 3), 6);
}

// cases/training.md L26: one target and 99 targets weigh 1 to 99, not half and half.
TEST(PackedTraining, OneTargetAndNinetyNineCountAsAHundred) {
    Dataset dataset = rule_dataset({2, 100});
    std::fill(dataset.samples[1].target_weight.begin() + 1, dataset.samples[1].target_weight.end(),
              1.0F);
    ASSERT_EQ(dataset.samples[0].n_targets(), 1);
    ASSERT_EQ(dataset.samples[1].n_targets(), 99);
    const Both both = train_both(dataset, 3, 2);
    expect_same(both, 3);
    const auto model = load_tiny("tiny-gemma4.gguf");
    const auto base = evaluate_dataset(*model, dataset, {}, false, nullptr);
    ASSERT_TRUE(base.ok());
    const double mean = (base->samples[0].loss + 99 * base->samples[1].loss) / 100;
    EXPECT_NEAR(both.apart.steps[0].loss, mean, 1e-4 * mean);
    EXPECT_NEAR(both.packed.steps[0].loss, mean, 1e-4 * mean);
    EXPECT_EQ(both.apart.steps[0].targets_done, 100U);
}

}  // namespace

}  // namespace lumi
