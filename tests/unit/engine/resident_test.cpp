// One process that answers, learns while it answers, and forgets, on a tiny random gemma4.
#include "support/opened_engine.h"

#include <gtest/gtest.h>

#include <atomic>

namespace lumi {

namespace {

using testing::message;
using testing::opened_engine;

class Resident : public ::testing::Test {
  protected:
    void SetUp() override {
        engine = opened_engine("tests/parity/tiny-gemma4.gguf", 256, 32);
        ASSERT_NE(engine, nullptr);
    }

    static TextRequest ask(const std::string & prompt, int max_tokens) {
        TextRequest request;
        request.prompt = prompt;
        request.generation.max_tokens = max_tokens;
        request.generation.ignore_end = true;
        request.generation.sampler.temperature = 0;
        request.generation.n_log_probabilities = 1;
        return request;
    }

    // The answer's tokens and their log-probabilities: equal only when the logits are.
    struct Trace {
        std::vector<int32_t> tokens;
        std::vector<float> log_probabilities;
        std::string revision;
        bool operator==(const Trace & other) const {
            return tokens == other.tokens && log_probabilities == other.log_probabilities;
        }
    };
    Trace trace(const std::string & prompt, bool use_memory = true) {
        Trace trace;
        TextRequest request = ask(prompt, 12);
        request.use_memory = use_memory;
        const TextSink sink = [&trace](const OutputDelta &, const GenerationStep & step) {
            if (!step.log_probabilities.empty()) {
                trace.log_probabilities.push_back(step.log_probabilities[0].log_probability);
            }
            return true;
        };
        const Result<TextResult> result = engine->submit(request, sink, nullptr).get();
        EXPECT_TRUE(result.ok()) << result.error().message;
        if (result.ok()) {
            trace.tokens = result->tokens;
            trace.revision = result->revision;
        }
        EXPECT_EQ(trace.tokens.size(), 12U);
        EXPECT_EQ(trace.log_probabilities.size(), 12U);
        return trace;
    }

    static TrainRequest lesson(int epochs) {
        TrainRequest request;
        request.chats = {{message(Role::user, "abc"), message(Role::assistant, "dd ee ff")}};
        request.options.rank = 4;
        request.options.alpha = 8;
        request.options.epochs = epochs;
        request.options.learning_rate = 2e-2F;
        request.options.warmup_steps = 0;
        request.options.batch_samples = 1;
        return request;
    }

    std::unique_ptr<Engine> engine;
};

TEST_F(Resident, AnswersTheSameTwice) {
    const Trace cold = trace("hello there");
    trace("another beginning");  // takes the cached prefix away
    EXPECT_EQ(trace("hello there"), cold);
    // With the prefix cached the same numbers come from other batch sizes: equal but for rounding.
    const Trace warm = trace("hello there");
    EXPECT_EQ(warm.tokens, cold.tokens);
    for (size_t i = 0; i < cold.log_probabilities.size(); ++i) {
        EXPECT_NEAR(warm.log_probabilities[i], cold.log_probabilities[i], 1e-3);
    }
}

TEST_F(Resident, LearnsWithoutAReloadAndForgetsBitForBit) {
    const Trace before = trace("hello there");
    const Result<TrainResult> learnt = engine->train(lesson(15), {}, nullptr).get();
    ASSERT_TRUE(learnt.ok()) << learnt.error().message;
    ASSERT_EQ(learnt->summary.epoch_train_loss.size(), 15U);
    EXPECT_LT(learnt->summary.epoch_train_loss.back(), learnt->summary.epoch_train_loss.front());
    EXPECT_EQ(engine->status().revision, learnt->revision);
    const Trace taught = trace("hello there");
    EXPECT_EQ(taught.revision, learnt->revision);
    EXPECT_FALSE(taught == before);
    EXPECT_EQ(trace("hello there", false), before);  // a request may leave the memory out
    EXPECT_EQ(trace("hello there"), taught);
    ASSERT_TRUE(engine->clear_memory().get().ok());
    EXPECT_EQ(engine->status().revision, "");
    EXPECT_EQ(trace("hello there"), before);
    EXPECT_FALSE(engine->memory().ok());
}

TEST_F(Resident, SavedMemoryCanBeLoadedAgain) {
    ASSERT_TRUE(engine->train(lesson(5), {}, nullptr).get().ok());
    const Trace taught = trace("hello there");
    Result<AdapterData> data = engine->memory();
    ASSERT_TRUE(data.ok());
    ASSERT_TRUE(engine->clear_memory().get().ok());
    ASSERT_TRUE(engine->load_memory(std::move(*data), 1.0F).get().ok());
    EXPECT_EQ(trace("hello there"), taught);
}

TEST_F(Resident, TheSecondLessonContinuesFromTheFirst) {
    const Result<TrainResult> first = engine->train(lesson(10), {}, nullptr).get();
    ASSERT_TRUE(first.ok()) << first.error().message;
    const Result<TrainResult> second = engine->train(lesson(1), {}, nullptr).get();
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_LT(second->summary.epoch_train_loss[0], first->summary.epoch_train_loss[0] / 2);
    TrainRequest fresh = lesson(1);
    fresh.from_base = true;
    const Result<TrainResult> anew = engine->train(fresh, {}, nullptr).get();
    ASSERT_TRUE(anew.ok());
    EXPECT_NEAR(anew->summary.epoch_train_loss[0], first->summary.epoch_train_loss[0], 1e-4);
}

TEST_F(Resident, AnswersWhileItTrains) {
    auto cancel = std::make_shared<CancelToken>();
    auto training = engine->train(
        lesson(100000), [](const TrainProgress &) {}, cancel);
    while (!engine->status().training) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(trace("hello there").revision, "");
        EXPECT_TRUE(engine->status().training);
    }
    cancel->cancel();
    const Result<TrainResult> result = training.get();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(engine->status().revision, "");
}

TEST_F(Resident, ClearingStopsALessonUnderWay) {
    auto training = engine->train(lesson(100000), {}, nullptr);
    while (!engine->status().training) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_TRUE(engine->clear_memory().get().ok());
    const Result<TrainResult> result = training.get();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::cancelled);
}

TEST_F(Resident, CancelEndsAnAnswerAndTheNextOneRuns) {
    auto cancel = std::make_shared<CancelToken>();
    std::atomic<int> steps = 0;
    const TextSink sink = [&](const OutputDelta &, const GenerationStep &) {
        ++steps;
        return steps < 3;  // the client hangs up at the third piece
    };
    const Result<TextResult> result = engine->submit(ask("hello", 200), sink, cancel).get();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::cancelled);
    EXPECT_LE(steps, 4);
    trace("hello there");
}

TEST_F(Resident, APromptOverTheContextIsRefusedWithBothNumbers) {
    std::string prompt;
    for (int i = 0; i < 400; ++i) {
        prompt += "x y ";
    }
    const Result<TextResult> result = engine->submit(ask(prompt, 1), {}, nullptr).get();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(result.error().message.find("256"), std::string::npos) << result.error().message;
    trace("hello there");
}

TEST_F(Resident, DestroyingItCancelsWhatRuns) {
    auto text = engine->submit(ask("hello", 200), {}, nullptr);
    auto queued = engine->submit(ask("hello", 200), {}, nullptr);
    auto training = engine->train(lesson(100000), {}, nullptr);
    engine.reset();
    EXPECT_FALSE(queued.get().ok());
    EXPECT_FALSE(training.get().ok());
    text.get().ok();
}

}  // namespace

}  // namespace lumi
