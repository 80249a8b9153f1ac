// Dropout in a whole run: the same seed drops the same numbers, a recomputed layer drops what its
// forward dropped, and evaluation drops nothing.
#include "tiny_training.h"

namespace lumi {

namespace {

constexpr float kDropout = 0.3F;

TrainOptions options_with(float dropout) {
    TrainOptions options = quick_options();
    options.dropout = dropout;
    options.epochs = 2;
    return options;
}

TrainingRun train(const Model & model, const TrainOptions & options) {
    return run_training(model, options, rule_dataset({30, 20, 25, 40}), rule_dataset({24}));
}

TEST(DropoutTraining, SameSeedGivesTheSameBytesAndDropoutChangesThem) {
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    TrainOptions options = options_with(kDropout);
    const AdapterData first = train(*model, options).adapter();
    EXPECT_EQ(adapter_distance(first, train(*model, options).adapter()), 0.0);
    EXPECT_GT(adapter_distance(first, train(*model, options_with(0.0F)).adapter()), 1e-3);
    EXPECT_EQ(first.record.at("train.dropout"), "0.3");
}

TEST(DropoutTraining, RecomputedLayersDropTheSameNumbers) {
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    for (const bool portable : {false, true}) {
        TrainOptions options = options_with(kDropout);
        options.portable = portable;
        options.recompute = Recompute::on;
        const AdapterData recomputed = train(*model, options).adapter();
        options.recompute = Recompute::off;
        EXPECT_EQ(adapter_distance(recomputed, train(*model, options).adapter()), 0.0);
    }
}

TEST(DropoutTraining, EvaluationDropsNothing) {
    const std::unique_ptr<Model> model = load_tiny("tiny-gemma4.gguf");
    const TrainingRun run = train(*model, options_with(kDropout));
    const TrainingRun plain = train(*model, options_with(0.0F));
    ASSERT_EQ(run.error, "");
    const std::vector<double> & losses = run.trainer->summary().epoch_validation_loss;
    ASSERT_EQ(losses.size(), 3U);
    // Before training B is zero, dropout or not; afterwards `lumi eval` must agree with the run.
    EXPECT_EQ(losses[0], plain.trainer->summary().epoch_validation_loss[0]);
    const Dataset validation = rule_dataset({24});
    const AdapterData adapter = run.adapter();
    const auto on_device = DeviceAdapter::create(adapter, model->device());
    ASSERT_TRUE(on_device.ok());
    LoraView view;
    (*on_device)->add_to(view, 1.0F);
    const auto evaluated = evaluate_dataset(*model, validation, view, false, nullptr);
    ASSERT_TRUE(evaluated.ok()) << evaluated.error().message;
    EXPECT_NEAR(evaluated->loss, std::min(losses[1], losses[2]), 1e-6);
}

TEST(DropoutTraining, LessThanAllIsAllowed) {
    for (const float dropout : {-0.1F, 1.0F, std::nanf("")}) {
        const Status status = options_with(dropout).check();
        ASSERT_FALSE(status.ok()) << dropout;
        EXPECT_NE(status.error().message.find("dropout"), std::string::npos);
    }
}

}  // namespace

}  // namespace lumi
