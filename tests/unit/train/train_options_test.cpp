// Ranges of options, learning-rate schedules, and what is refused before anything is allocated.
#include "train/schedule.h"

#include "tiny_training.h"

#include "base/log.h"

#include <functional>

namespace lumi {

namespace {

TEST(TrainOptionsCheck, NamesEachFieldOutOfRange) {
    const std::pair<const char *, std::function<void(TrainOptions &)>> cases[] = {
        {"rank", [](TrainOptions & o) { o.rank = 0; }},
        {"alpha", [](TrainOptions & o) { o.alpha = NAN; }},
        {"epochs", [](TrainOptions & o) { o.epochs = -1; }},
        {"max_steps", [](TrainOptions & o) { o.max_steps = -1; }},
        {"learning_rate", [](TrainOptions & o) { o.learning_rate = 0; }},
        {"learning_rate", [](TrainOptions & o) { o.learning_rate = INFINITY; }},
        {"warmup_steps", [](TrainOptions & o) { o.warmup_steps = -5; }},
        {"beta1", [](TrainOptions & o) { o.beta1 = 1.0F; }},
        {"beta2", [](TrainOptions & o) { o.beta2 = -0.1F; }},
        {"epsilon", [](TrainOptions & o) { o.epsilon = 0; }},
        {"weight_decay", [](TrainOptions & o) { o.weight_decay = NAN; }},
        {"clip_norm", [](TrainOptions & o) { o.clip_norm = -1; }},
        {"batch_samples", [](TrainOptions & o) { o.batch_samples = 0; }},
        {"window_tokens", [](TrainOptions & o) { o.window_tokens = 3; }},
        {"slice_seconds", [](TrainOptions & o) { o.slice_seconds = 0; }},
    };
    EXPECT_TRUE(TrainOptions{}.check().ok());
    for (const auto & [name, change] : cases) {
        TrainOptions options;
        change(options);
        const Status status = options.check();
        ASSERT_FALSE(status.ok()) << name;
        EXPECT_EQ(status.error().kind, ErrorKind::invalid_argument);
        EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
    }
}

TEST(Schedule, WarmsUpThenFollowsItsShape) {
    TrainOptions options;
    options.learning_rate = 1.0F;
    options.warmup_steps = 4;
    options.schedule = LrSchedule::cosine;
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 0, 104), 0.25);
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 3, 104), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 4, 104), 1.0);
    EXPECT_NEAR(learning_rate_at(options, 54, 104), 0.5, 1e-12);
    EXPECT_LT(learning_rate_at(options, 103, 104), 0.001);
    options.schedule = LrSchedule::linear;
    EXPECT_NEAR(learning_rate_at(options, 29, 104), 0.75, 1e-12);
    options.schedule = LrSchedule::constant;
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 103, 104), 1.0);
}

TEST(Schedule, WarmUpTakesAtMostHalfOfAShortRun) {
    TrainOptions options;
    options.learning_rate = 1.0F;
    options.warmup_steps = 100;
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 1, 4), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate_at(options, 0, 1), 1.0);
}

class TrainerRefusal : public testing::Test {
  protected:
    void expect_refused(Dataset train, const TrainOptions & options, const std::string & words) {
        const auto trainer = Trainer::create(*model_, std::move(train), {}, options, nullptr);
        ASSERT_FALSE(trainer.ok());
        EXPECT_EQ(trainer.error().kind, ErrorKind::invalid_argument);
        EXPECT_NE(trainer.error().message.find(words), std::string::npos)
            << trainer.error().message;
    }
    std::unique_ptr<Model> model_ = load_tiny("tiny-gemma3.gguf");
};

TEST_F(TrainerRefusal, OfNothingToLearn) {
    expect_refused({}, quick_options(), "no training samples");
    Dataset masked = rule_dataset({20});
    masked.samples[0].target_weight.assign(20, 0.0F);
    expect_refused(masked, quick_options(), "no token to learn");
}

TEST_F(TrainerRefusal, OfSamplesThatDoNotFit) {
    expect_refused(rule_dataset({65}), quick_options(), "65 tokens, the training window is 64");
    Dataset foreign = rule_dataset({20});
    foreign.samples[0].tokens[3] = model_->config().n_vocab;
    expect_refused(foreign, quick_options(), "holds token");
    foreign.samples[0].tokens[3] = -1;
    expect_refused(foreign, quick_options(), "holds token -1");
}

TEST_F(TrainerRefusal, OfLayersTheModelDoesNotHave) {
    TrainOptions options = quick_options();
    options.targets.first_layer = 7;
    expect_refused(rule_dataset({20}), options, "targets: layers 7 to 6");
    options.targets = {{}, 2, 99};
    expect_refused(rule_dataset({20}), options, "allowed are 0 to 6");
}

TEST_F(TrainerRefusal, OfAnAdapterOfAnotherShape) {
    AdapterData other = make_adapter(model_->config(), model_->plain_weights(), {}, 2, 4.0F, 1);
    other.pairs[0].n_in += 1;
    const auto trainer = Trainer::create(*model_, rule_dataset({20}), {}, quick_options(), &other);
    ASSERT_FALSE(trainer.ok());
    EXPECT_NE(trainer.error().message.find("does not fit this model"), std::string::npos);
}

TEST_F(TrainerRefusal, NotButAWarningOfALearningRateHighForTheWidth) {
    std::string warning;
    set_log_sink([&](LogLevel level, std::string_view text) {
        if (level == LogLevel::warning) {
            warning = text;
        }
    });
    const float usual = 0.384F / static_cast<float>(model_->config().n_embd);
    TrainOptions options = quick_options();
    options.learning_rate = usual;
    EXPECT_TRUE(Trainer::create(*model_, rule_dataset({20}), {}, options, nullptr).ok());
    EXPECT_EQ(warning, "");
    options.learning_rate = 2.1F * usual;
    EXPECT_TRUE(Trainer::create(*model_, rule_dataset({20}), {}, options, nullptr).ok());
    set_log_sink({});
    EXPECT_NE(warning.find("learning rate"), std::string::npos) << warning;
}

TEST_F(TrainerRefusal, NeverOfAPlanThatFitsWhichNamesEverythingAllocated) {
    const auto plan = [&](int length, const TrainOptions & options) {
        const auto made = Trainer::plan(*model_, rule_dataset({length}), {}, options, nullptr);
        EXPECT_TRUE(made.ok()) << made.error().message;
        return made->memory;
    };
    EXPECT_EQ(plan(32, quick_options()).items.size(), 4U);
    EXPECT_GT(plan(64, quick_options()).anonymous_bytes(),
              plan(32, quick_options()).anonymous_bytes());
    TrainOptions portable = quick_options();
    portable.portable = true;
    EXPECT_EQ(plan(32, portable).items.size(), 5U);
}

}  // namespace

}  // namespace lumi
