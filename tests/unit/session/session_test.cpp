// A session's numbers do not depend on how the work was cut up, what was cached or rolled back.
#include "tiny_session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace lumi {
namespace {

using namespace lumi::test;

// F32 sums in another order. ggml's GELU is a table indexed by an F16, which makes steps of 1e-3
// out of last bits; what these tests guard against (a wrong cell, window or position) is over 0.05.
constexpr double kSame = 5e-3;

// Logits of every position of tokens, in a row.
std::vector<std::vector<float>> all_logits(Session & session, const std::vector<int32_t> & tokens) {
    std::vector<std::vector<float>> rows;
    const Status status =
        session.evaluate(tokens, [&](int position, std::span<const float> logits) {
            EXPECT_EQ(position, static_cast<int>(rows.size()));
            rows.emplace_back(logits.begin(), logits.end());
            return Status();
        });
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(rows.size(), tokens.size());
    return rows;
}

void expect_same_rows(const std::vector<std::vector<float>> & a,
                      const std::vector<std::vector<float>> & b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_LT(relative_difference(a[i], b[i]), tolerance) << "position " << i;
    }
}

TEST(Session, ChunksOfAnySizeGiveTheLogitsOfOneBatch) {
    for (const char * shape : {"tiny", "tiny-gemma3"}) {
        const Model & model = tiny_model("F32", false, shape);
        const std::vector<int32_t> tokens = random_tokens(1, 60);
        const auto reference = all_logits(*make_session(model, reference_options()), tokens);
        for (const int n_batch : {1, 7, 32}) {
            const auto session = make_session(model, small_batches(n_batch));
            expect_same_rows(all_logits(*session, tokens), reference, kSame);
        }
    }
}

TEST(Session, TokenByTokenDecodingGivesTheLogitsOfOneBatch) {
    const Model & model = tiny_model();
    const std::vector<int32_t> tokens = random_tokens(2, 60);
    const auto reference = all_logits(*make_session(model, reference_options()), tokens);
    const auto session = make_session(model, small_batches(16));
    EXPECT_LT(relative_difference(logits_after(*session, {tokens[0]}), reference[0]), kSame);
    for (size_t i = 1; i < tokens.size(); ++i) {
        ASSERT_TRUE(session->decode(tokens[i]).ok());
        EXPECT_LT(relative_difference(session->logits(), reference[i]), kSame) << i;
    }
    EXPECT_EQ(session->n_past(), 60);
    EXPECT_EQ(session->counters().tokens_decoded, 59U);
}

// Rows that nobody asked for stop after the last K/V projections; the counter shows it.
TEST(Session, DroppedRowsChangeNoLogit) {
    const Model & model = tiny_model();
    const std::vector<int32_t> tokens = random_tokens(3, 50);
    const auto reference = all_logits(*make_session(model, reference_options()), tokens);
    const auto session = make_session(model, reference_options());
    EXPECT_LT(relative_difference(logits_after(*session, tokens), reference.back()), kSame);
    const uint64_t cut = 4;  // the last layer that owns K/V
    EXPECT_EQ(session->counters().layer_evaluations, cut * 50 + (8 - cut) * 1);
}

TEST(Session, TheRingMayWrapManyTimes) {
    const Model & model = tiny_model();
    const std::vector<int32_t> tokens = random_tokens(4, 400);
    const auto reference = all_logits(*make_session(model, reference_options()), tokens);
    const auto session = make_session(model, small_batches(5));  // a ring of 32, 12 times around
    expect_same_rows(all_logits(*session, tokens), reference, kSame);
}

TEST(Session, ASecondTurnEvaluatesOnlyNewTokens) {  // cases/inference.md M21
    const Model & model = tiny_model();
    const auto session = make_session(model, small_batches(16));
    std::vector<int32_t> tokens = random_tokens(5, 100);
    logits_after(*session, tokens);
    EXPECT_EQ(session->counters().prompt_tokens_evaluated, 100U);
    const std::vector<int32_t> more = random_tokens(6, 9);
    tokens.insert(tokens.end(), more.begin(), more.end());
    const std::vector<float> warm = logits_after(*session, tokens);
    EXPECT_EQ(session->counters().prompt_tokens_evaluated, 109U);
    EXPECT_EQ(session->counters().prompt_tokens_reused, 100U);
    EXPECT_LT(relative_difference(warm, fresh_logits(model, tokens)), kSame);
    // The same prompt again: one token, for its logits.
    logits_after(*session, tokens);
    EXPECT_EQ(session->counters().prompt_tokens_evaluated, 110U);
}

TEST(Session, RollingBackKeepsWhatTheRingStillHolds) {  // cases/inference.md M10, twice
    const Model & model = tiny_model();
    const auto session = make_session(model, small_batches(16));
    std::vector<int32_t> tokens = random_tokens(7, 120);
    logits_after(*session, tokens);
    for (const uint64_t seed : {8U, 9U, 10U}) {
        // Another end after all but 15 tokens.
        const uint64_t reused_before = session->counters().prompt_tokens_reused;
        const std::vector<int32_t> end = random_tokens(seed, 20);
        const size_t kept = tokens.size() - 15;
        tokens.resize(kept);
        tokens.insert(tokens.end(), end.begin(), end.end());
        const std::vector<float> warm = logits_after(*session, tokens);
        EXPECT_GE(session->counters().prompt_tokens_reused - reused_before, kept);
        EXPECT_LT(relative_difference(warm, fresh_logits(model, tokens)), kSame);
    }
}

TEST(Session, RollingBackFurtherThanTheRingStartsOver) {
    const Model & model = tiny_model();
    const auto session = make_session(model, small_batches(16));
    std::vector<int32_t> tokens = random_tokens(11, 120);
    logits_after(*session, tokens);
    tokens.resize(60);
    const std::vector<float> warm = logits_after(*session, tokens);
    EXPECT_EQ(session->counters().prompt_tokens_reused, 0U);
    EXPECT_LT(relative_difference(warm, fresh_logits(model, tokens)), kSame);
}

TEST(Session, FiveRoundsOfChatEqualAFreshStart) {  // cases/inference.md M23, M38
    const Model & model = tiny_model();
    const auto session = make_session(model, small_batches(12));
    std::vector<int32_t> tokens = {2};
    for (uint64_t round = 0; round < 5; ++round) {
        const std::vector<int32_t> question = random_tokens(20 + round, 17);
        tokens.insert(tokens.end(), question.begin(), question.end());
        EXPECT_LT(relative_difference(logits_after(*session, tokens), fresh_logits(model, tokens)),
                  kSame);
        for (const int32_t token : random_tokens(40 + round, 11)) {
            ASSERT_TRUE(session->decode(token).ok());
            tokens.push_back(token);
        }
        EXPECT_LT(relative_difference(session->logits(), fresh_logits(model, tokens)), kSame);
    }
    EXPECT_EQ(session->counters().prompt_tokens_evaluated, 1U + 5U * 17U);
}

TEST(Session, FlashAttentionEqualsPlainAttention) {
    for (const char * shape : {"tiny", "tiny-gemma3"}) {
        const Model & model = tiny_model("F32", false, shape);
        const std::vector<int32_t> tokens = random_tokens(12, 70);
        const auto reference = all_logits(*make_session(model, reference_options()), tokens);
        SessionOptions options = small_batches(16);
        options.flash = FlashMode::on;
        const auto flash = make_session(model, options);
        EXPECT_TRUE(flash->flash_in_use());
        expect_same_rows(all_logits(*flash, tokens), reference, kSame);
    }
}

// cases/inference.md M18: every cache type on every path, or a refusal at the start.
TEST(Session, EveryCacheTypeWorksOrIsRefusedAtTheStart) {
    const Model & model = tiny_model();
    const std::vector<int32_t> tokens = random_tokens(13, 70);
    const std::vector<float> reference = fresh_logits(model, tokens);
    struct Row {
        KvType type;
        double tolerance;
    };
    for (const Row row :
         {Row{KvType::f32, kSame}, Row{KvType::f16, 1e-2}, Row{KvType::q8_0, 0.1}}) {
        for (const FlashMode flash : {FlashMode::on, FlashMode::off}) {
            SessionOptions options = small_batches(16);
            options.kv_type = row.type;
            options.flash = flash;
            if (row.type == KvType::q8_0 && flash == FlashMode::off) {
                const auto refused = Session::create(model, options);
                ASSERT_FALSE(refused.ok());
                EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
                continue;
            }
            const auto session = make_session(model, options);
            EXPECT_LT(relative_difference(logits_after(*session, tokens), reference),
                      row.tolerance);
        }
    }
}

TEST(Session, RepackedWeightsGiveNearlyThePlainResult) {
    const std::vector<int32_t> tokens = random_tokens(14, 40);
    const Model & model = tiny_model("Q4_K_M", true);
    ASSERT_TRUE(model.repacked());
    SessionOptions exact = reference_options();
    exact.exact = true;
    const std::vector<float> plain = logits_after(*make_session(model, exact), tokens);
    const std::vector<float> repacked =
        logits_after(*make_session(model, reference_options()), tokens);
    EXPECT_LT(relative_difference(repacked, plain), 5e-2);
    // Exact on the twin's model is the model without a twin, bit for bit.
    const Model & without = tiny_model("Q4_K_M", false);
    EXPECT_EQ(plain, logits_after(*make_session(without, exact), tokens));
}

TEST(Session, AFullContextIsAnErrorWithTheNumber) {
    const Model & model = tiny_model();
    SessionOptions options = small_batches(16);
    options.n_ctx = 40;
    const auto session = make_session(model, options);
    const Status too_long = session->begin(random_tokens(15, 41));
    ASSERT_FALSE(too_long.ok());
    EXPECT_EQ(too_long.error().kind, ErrorKind::invalid_argument);
    EXPECT_NE(too_long.error().message.find("41"), std::string::npos);
    EXPECT_NE(too_long.error().message.find("40"), std::string::npos);
    logits_after(*session, random_tokens(15, 39));
    EXPECT_TRUE(session->decode(1).ok());
    const std::vector<float> last(session->logits().begin(), session->logits().end());
    const Status full = session->decode(1);
    ASSERT_FALSE(full.ok());
    EXPECT_NE(full.error().message.find("context is full (40"), std::string::npos);
    // Refused, not damaged.
    EXPECT_EQ(session->n_past(), 40);
    EXPECT_EQ(last, std::vector<float>(session->logits().begin(), session->logits().end()));
}

TEST(Session, BadTokensAndCallsOutOfOrderAreErrors) {
    const Model & model = tiny_model();
    const auto session = make_session(model, small_batches(16));
    EXPECT_FALSE(session->begin({}).ok());
    EXPECT_FALSE(session->begin(std::vector<int32_t>{1, 512}).ok());
    EXPECT_FALSE(session->begin(std::vector<int32_t>{-1}).ok());
    EXPECT_FALSE(session->prefill_step().ok());
    EXPECT_FALSE(session->decode(1).ok());
    EXPECT_TRUE(session->logits().empty());
    logits_after(*session, {1, 2, 3});
    EXPECT_FALSE(session->decode(512).ok());
    EXPECT_TRUE(session->decode(4).ok());
}

TEST(Session, ContradictoryOrImpossibleOptionsAreRefused) {  // cases/inference.md M8
    const Model & model = tiny_model();
    const auto refused = [&](void (*change)(SessionOptions &)) {
        SessionOptions options = reference_options();
        change(options);
        return !Session::create(model, options).ok();
    };
    EXPECT_TRUE(refused([](SessionOptions & o) { o.n_ctx = 0; }));
    EXPECT_TRUE(refused([](SessionOptions & o) { o.n_ctx = -5; }));
    EXPECT_TRUE(refused([](SessionOptions & o) { o.n_batch = 0; }));
    EXPECT_TRUE(refused([](SessionOptions & o) {
        o.exact = true;
        o.flash = FlashMode::on;
    }));
    SessionOptions large = reference_options();
    large.n_ctx = 1 << 20;
    large.n_batch = 1 << 20;
    const auto session = make_session(model, large);
    EXPECT_EQ(session->options().n_ctx, 512);  // the model's own limit
    EXPECT_EQ(session->options().n_batch, 512);
}

TEST(Session, ThePlanCountsTheCacheExactly) {
    const Model & model = tiny_model();
    SessionOptions options = small_batches(16);
    options.n_ctx = 300;
    const Result<MemoryPlan> plan = Session::plan(model, options);
    ASSERT_TRUE(plan.ok());
    // K and V in F32: layers 2 and 4 keep 512 cells of 2 heads of 128, layers 0, 1 and 3 a ring of
    // 32 cells of 2 heads of 64; the three layers that share keep nothing.
    const uint64_t expected = 4U * 2U * (2U * 512U * 256U + 3U * 32U * 128U);
    EXPECT_EQ(plan->items.at(0).bytes, expected);
    EXPECT_GT(plan->items.at(1).bytes, 0U);
    EXPECT_EQ(plan->mapped_bytes(), 0U);
}

TEST(Session, EvaluationStopsWhenTheVisitorFails) {
    const auto session = make_session(tiny_model(), small_batches(16));
    int seen = 0;
    const Status status =
        session->evaluate(random_tokens(16, 40), [&](int, std::span<const float>) -> Status {
            if (++seen == 20) {
                return Error{ErrorKind::cancelled, "enough"};
            }
            return {};
        });
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(seen, 20);
    const std::vector<int32_t> tokens = random_tokens(17, 30);
    EXPECT_LT(
        relative_difference(logits_after(*session, tokens), fresh_logits(tiny_model(), tokens)),
        kSame);
}

}  // namespace
}  // namespace lumi
