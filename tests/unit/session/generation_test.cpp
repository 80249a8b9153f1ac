// A generation's ends, texts, counts and refusals, on a model whose next token the tests steer by
// logit bias.
#include "session/generation.h"
#include "tiny_session.h"

#include <gtest/gtest.h>

#include <limits>

namespace lumi {
namespace {

using namespace lumi::test;

struct Outcome {
    std::string text;
    std::vector<int32_t> tokens;
    FinishReason reason = FinishReason::none;
    GenerationTimes times;
    std::vector<GenerationStep> steps;
};

class Generations : public testing::Test {
  protected:
    void SetUp() override {
        Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::load(model_.file());
        ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
        tokenizer_ = std::move(tokenizer).value();
        for (TokenId id = 0; id < tokenizer_->n_tokens(); ++id) {
            if (tokenizer_->type(id) == TokenType::control && !tokenizer_->is_end(id)) {
                control_ = id;
            }
        }
        ASSERT_GE(control_, 0);
        ASSERT_FALSE(tokenizer_->end_tokens().empty());
        end_ = tokenizer_->end_tokens().front();
        // Answers of these tests do not end by chance.
        for (const TokenId end : tokenizer_->end_tokens()) {
            options_.sampler.logit_bias[end] = -std::numeric_limits<float>::infinity();
        }
        // Lone bytes of random tokens are no text; what becomes of them is the decoder's own test.
        for (TokenId id = 0; id < tokenizer_->n_tokens(); ++id) {
            if (tokenizer_->type(id) == TokenType::byte) {
                options_.sampler.suppressed.push_back(id);
            }
        }
        options_.max_tokens = 12;
    }

    Outcome run(const std::vector<int32_t> & prompt) {
        Outcome outcome;
        auto generation = Generation::start(*session_, *tokenizer_, prompt, options_);
        EXPECT_TRUE(generation.ok()) << generation.error().message;
        for (bool done = !generation.ok(); !done;) {
            Result<GenerationStep> step = (*generation)->step();
            EXPECT_TRUE(step.ok()) << step.error().message;
            if (!step.ok()) {
                break;
            }
            outcome.text += step->text;
            done = step->done;
            outcome.steps.push_back(std::move(step).value());
        }
        outcome.tokens = (*generation)->generated();
        outcome.reason = (*generation)->finish_reason();
        outcome.times = (*generation)->times();
        return outcome;
    }

    const Model & model_ = tiny_model();
    std::unique_ptr<Session> session_ = make_session(model_, small_batches(16));
    std::unique_ptr<Tokenizer> tokenizer_;
    TokenId control_ = -1;
    TokenId end_ = -1;
    GenerationOptions options_;
    std::vector<int32_t> prompt_ = random_tokens(50, 37);
};

TEST_F(Generations, StreamsExactlyTheTextOfItsTokens) {
    const Outcome outcome = run(prompt_);
    EXPECT_EQ(outcome.reason, FinishReason::length);
    EXPECT_EQ(outcome.tokens.size(), 12U);
    EXPECT_EQ(outcome.text, tokenizer_->decode(outcome.tokens, false));
    EXPECT_EQ(outcome.times.prompt_tokens, 37);
    EXPECT_EQ(outcome.times.reused_tokens, 0);
    EXPECT_EQ(outcome.times.generated_tokens, 12);
    EXPECT_GT(outcome.times.prefill_seconds, 0.0);
    EXPECT_GT(outcome.times.decode_seconds, 0.0);
    // 37 tokens in batches of 16, then a token a step.
    EXPECT_EQ(outcome.steps.size(), 3U + 12U);
    EXPECT_EQ(outcome.steps[1].token, -1);
    EXPECT_EQ(outcome.steps[3].token, outcome.tokens[0]);
}

TEST_F(Generations, SameSeedSameAnswerAndTheCacheChangesNothing) {
    const Outcome first = run(prompt_);
    EXPECT_EQ(run(prompt_).tokens, first.tokens);  // on a warm cache
    session_->clear();
    EXPECT_EQ(run(prompt_).tokens, first.tokens);
    options_.sampler.seed = 43;
    EXPECT_NE(run(prompt_).tokens, first.tokens);
}

TEST_F(Generations, ASecondTurnReusesPromptAndAnswer) {
    const Outcome first = run(prompt_);
    std::vector<int32_t> next = prompt_;
    next.insert(next.end(), first.tokens.begin(), first.tokens.end());
    next.push_back(7);
    const Outcome second = run(next);
    // The last token of an answer is chosen, never evaluated.
    EXPECT_EQ(second.times.reused_tokens, 37 + 12 - 1);
}

TEST_F(Generations, EndTokensEndByIdAndShowNothing) {
    options_.sampler.logit_bias[end_] = 100.0F;
    const Outcome outcome = run(prompt_);
    EXPECT_EQ(outcome.reason, FinishReason::end_token);
    EXPECT_EQ(outcome.tokens, (std::vector<int32_t>{end_}));
    EXPECT_EQ(outcome.text, "");
    options_.ignore_end = true;
    EXPECT_EQ(run(prompt_).reason, FinishReason::length);
}

TEST_F(Generations, EveryEndTokenOfTheFamilyEnds) {
    for (const TokenId end : tokenizer_->end_tokens()) {
        options_.sampler.logit_bias.clear();
        options_.sampler.logit_bias[end] = 100.0F;
        EXPECT_EQ(run(prompt_).reason, FinishReason::end_token) << end;
    }
}

TEST_F(Generations, AStopTextEndsAndIsNotShown) {
    options_.sampler.temperature = 0.0F;
    const Outcome free = run(prompt_);
    ASSERT_GE(free.text.size(), 4U);
    // A piece from the middle of the answer, whole characters only.
    size_t at = free.text.size() / 2;
    while (at > 0 && (static_cast<unsigned char>(free.text[at]) & 0xC0U) == 0x80U) {
        --at;
    }
    options_.stops = {free.text.substr(at), ""};
    const Outcome stopped = run(prompt_);
    EXPECT_EQ(stopped.reason, FinishReason::stop_text);
    EXPECT_EQ(stopped.text, free.text.substr(0, free.text.find(options_.stops[0])));
}

TEST_F(Generations, TheContextsEndIsAReasonNotAnError) {
    SessionOptions small = small_batches(16);
    small.n_ctx = 45;
    session_ = make_session(model_, small);
    options_.max_tokens = -1;
    const Outcome outcome = run(prompt_);
    EXPECT_EQ(outcome.reason, FinishReason::context_full);
    // 8 fit behind the prompt; one more is chosen from the last logits.
    EXPECT_EQ(outcome.tokens.size(), 9U);
    EXPECT_EQ(session_->n_past(), 45);
    EXPECT_FALSE(Generation::start(*session_, *tokenizer_, random_tokens(51, 46), options_).ok());
}

TEST_F(Generations, TheSameOddTokenForEverIsAReportableStop) {  // cases/inference.md M4, M5
    options_.sampler.logit_bias[control_] = 100.0F;
    options_.max_tokens = 400;
    const Outcome outcome = run(prompt_);
    EXPECT_EQ(outcome.reason, FinishReason::repetition);
    EXPECT_EQ(outcome.tokens.size(), 64U);
    // An ordinary token may repeat: the cap ends it.
    const TokenId letter = tokenizer_->encode("a", Tokenizer::Specials::plain).back();
    options_.sampler.logit_bias.erase(control_);
    options_.sampler.logit_bias[letter] = 100.0F;
    options_.max_tokens = 100;
    EXPECT_EQ(run(prompt_).reason, FinishReason::length);
}

TEST_F(Generations, CancelEndsAtTheNextStepEvenInThePrompt) {
    auto generation = Generation::start(*session_, *tokenizer_, prompt_, options_);
    ASSERT_TRUE(generation.ok());
    ASSERT_TRUE((*generation)->step().ok());
    (*generation)->cancel();
    const Result<GenerationStep> last = (*generation)->step();
    ASSERT_TRUE(last.ok());
    EXPECT_TRUE(last->done);
    EXPECT_EQ((*generation)->finish_reason(), FinishReason::cancelled);
    EXPECT_FALSE((*generation)->step().ok());
    // What was cut off in the middle of its prompt leaves a session that works.
    EXPECT_EQ(run(prompt_).reason, FinishReason::length);
}

TEST_F(Generations, LogProbabilitiesComeWithTheChosenFirst) {
    options_.n_log_probabilities = 3;
    const Outcome outcome = run(prompt_);
    for (size_t i = 3; i < outcome.steps.size(); ++i) {
        const GenerationStep & step = outcome.steps[i];
        ASSERT_EQ(step.log_probabilities.size(), 4U);
        EXPECT_EQ(step.log_probabilities[0].token, step.token);
        EXPECT_GE(step.log_probabilities[1].log_probability,
                  step.log_probabilities[2].log_probability);
        EXPECT_GE(step.log_probabilities[1].log_probability,
                  step.log_probabilities[0].log_probability);
        EXPECT_LE(step.log_probabilities[1].log_probability, 0.0F);
    }
}

TEST_F(Generations, NoTokensWantedOnlyFillsTheCache) {
    options_.max_tokens = 0;
    const Outcome outcome = run(prompt_);
    EXPECT_EQ(outcome.reason, FinishReason::length);
    EXPECT_TRUE(outcome.tokens.empty());
    EXPECT_EQ(session_->n_past(), 37);
}

// cases/inference.md M12: numbers that are none fail one request, the session lives.
TEST_F(Generations, BrokenNumbersFailTheRequestOnly) {
    const Outcome healthy = run(prompt_);
    ASSERT_TRUE(session_->set_adapters({random_adapter(model_, {}, 0, -1, "broken", 1e30F)}).ok());
    auto generation = Generation::start(*session_, *tokenizer_, prompt_, options_);
    ASSERT_TRUE(generation.ok());
    Result<GenerationStep> step = (*generation)->step();
    while (step.ok() && !step->done) {
        step = (*generation)->step();
    }
    ASSERT_FALSE(step.ok());
    EXPECT_EQ(step.error().kind, ErrorKind::numeric);
    ASSERT_TRUE(session_->set_adapters({}).ok());
    EXPECT_EQ(run(prompt_).tokens, healthy.tokens);
}

TEST_F(Generations, HostileOptionsAreRefusedBeforeAnythingRuns) {
    const auto refused = [&](void (*change)(GenerationOptions &)) {
        GenerationOptions options;
        change(options);
        return !Generation::start(*session_, *tokenizer_, {1, 2}, options).ok();
    };
    EXPECT_FALSE(refused([](GenerationOptions &) {}));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.max_tokens = -2; }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.n_log_probabilities = -1; }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.n_log_probabilities = 101; }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.stops.assign(65, "x"); }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.stops = {std::string(5000, 'x')}; }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.sampler.temperature = -1.0F; }));
    EXPECT_TRUE(refused([](GenerationOptions & o) { o.sampler.logit_bias[512] = 1.0F; }));
    EXPECT_FALSE(Generation::start(*session_, *tokenizer_, {}, options_).ok());
    EXPECT_FALSE(Generation::start(*session_, *tokenizer_, {1, 99999}, options_).ok());
}

}  // namespace
}  // namespace lumi
