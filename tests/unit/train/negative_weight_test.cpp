// Samples to unlearn: their loss rises to the bound and stays finite, beside samples to learn.
#include "tiny_training.h"

#include "graph/loss.h"

namespace lumi {

namespace {

double loss_of(const Model & model, const Sample & sample, const AdapterData & adapter) {
    Dataset dataset;
    dataset.samples = {sample};
    for (float & weight : dataset.samples[0].target_weight) {
        weight = std::abs(weight);
    }
    const auto uploaded = DeviceAdapter::create(adapter, model.device());
    EXPECT_TRUE(uploaded.ok());
    LoraView view;
    (*uploaded)->add_to(view, 1.0F);
    return evaluate_dataset(model, dataset, view, false, nullptr).value().loss;
}

Dataset negative(Dataset dataset, size_t which) {
    for (float & weight : dataset.samples[which].target_weight) {
        weight *= -1.0F;
    }
    return dataset;
}

TEST(NegativeWeight, UnlearnsWhatItIsToldToAndLearnsTheRest) {
    const auto model = load_tiny("tiny-gemma4.gguf");
    TrainOptions options = quick_options();
    options.max_steps = 40;
    const TrainingRun run = run_training(*model, options, negative(rule_dataset({24, 30}), 1));
    ASSERT_EQ(run.error, "");
    const AdapterData adapter = run.adapter();
    const Dataset both = rule_dataset({24, 30});
    EXPECT_LT(loss_of(*model, both.samples[0], adapter), 1.0);
    EXPECT_GT(loss_of(*model, both.samples[1], adapter), 5.0);
    for (const TrainProgress & step : run.steps) {
        EXPECT_GT(step.loss, -static_cast<double>(kUnlearnt));
    }
}

// What is unlearnt pushes no more, however long training goes on; AdamW's momentum alone carries it
// past the bound.
TEST(NegativeWeight, StopsPushingAtTheBound) {
    const auto model = load_tiny("tiny-gemma4.gguf");
    const Dataset dataset = rule_dataset({24});
    TrainOptions options = quick_options();
    options.max_steps = 30;
    const AdapterData learnt = run_training(*model, options, dataset).adapter();
    ASSERT_LT(loss_of(*model, dataset.samples[0], learnt), 1.0);
    options.learning_rate = 1e-3F;
    options.max_steps = 60;
    const TrainingRun run = run_training(*model, options, negative(dataset, 0), {}, &learnt);
    ASSERT_EQ(run.error, "");
    EXPECT_GT(run.steps.front().grad_norm, 0.0);
    for (size_t i = 50; i < 60; ++i) {
        EXPECT_EQ(run.steps[i].grad_norm, 0.0) << i;
    }
    EXPECT_GT(loss_of(*model, dataset.samples[0], run.adapter()), static_cast<double>(kUnlearnt));
}

}  // namespace

}  // namespace lumi
