// Adapters and the cache: kept when no K or V can have changed, dropped otherwise, right always.
#include "tiny_session.h"

#include <gtest/gtest.h>

#include <limits>

namespace lumi {
namespace {

using namespace lumi::test;

constexpr double kSame = 5e-3;  // as in session_test.cpp
constexpr int kLastOwner = 4;

class SessionAdapters : public testing::Test {
  protected:
    const Model & model_ = tiny_model();
    std::unique_ptr<Session> session_ = make_session(model_, small_batches(16));
    std::vector<int32_t> tokens_ = random_tokens(30, 40);

    // Applies adapters to the warm session and checks the answer against a cold one; returns how
    // many tokens the warm session had to evaluate.
    uint64_t evaluated_after(const std::vector<AppliedAdapter> & adapters) {
        logits_after(*session_, tokens_);
        const uint64_t before = session_->counters().prompt_tokens_evaluated;
        EXPECT_TRUE(session_->set_adapters(adapters).ok());
        const std::vector<float> warm = logits_after(*session_, tokens_);
        EXPECT_LT(relative_difference(warm, fresh_logits(model_, tokens_, adapters)), kSame);
        return session_->counters().prompt_tokens_evaluated - before;
    }
};

TEST_F(SessionAdapters, AnAdapterOnAllLayersDropsTheCache) {
    const AppliedAdapter adapter = random_adapter(model_, {}, 0, -1, "all");
    const std::vector<float> base = logits_after(*session_, tokens_);
    EXPECT_EQ(evaluated_after({adapter}), 40U);
    EXPECT_GT(relative_difference(session_->logits(), base), 1e-2);
    // The same again keeps it; another revision or scale does not.
    EXPECT_EQ(evaluated_after({adapter}), 1U);
    EXPECT_EQ(evaluated_after({random_adapter(model_, {}, 0, -1, "other")}), 40U);
    AppliedAdapter weaker = adapter;
    weaker.scale = 0.5F;
    EXPECT_EQ(evaluated_after({weaker}), 40U);
    EXPECT_EQ(evaluated_after({}), 40U);
}

TEST_F(SessionAdapters, AnAdapterAboveTheOwnersKeepsTheCache) {
    const std::vector<float> base = logits_after(*session_, tokens_);
    const AppliedAdapter tail = random_adapter(model_, {}, kLastOwner + 1, -1, "tail");
    EXPECT_EQ(evaluated_after({tail}), 1U);
    EXPECT_GT(relative_difference(session_->logits(), base), 1e-2);
    EXPECT_EQ(evaluated_after({random_adapter(model_, {}, kLastOwner + 1, -1, "tail two")}), 1U);
    EXPECT_EQ(evaluated_after({}), 1U);
}

TEST_F(SessionAdapters, InTheLastOwnerOnlyKeysAndValuesMatter) {
    const std::vector<Module> above = {Module::q,    Module::o,        Module::gate,    Module::up,
                                       Module::down, Module::ple_gate, Module::ple_proj};
    EXPECT_EQ(evaluated_after({random_adapter(model_, above, kLastOwner, kLastOwner, "above")}),
              1U);
    EXPECT_EQ(evaluated_after({random_adapter(model_, {Module::k}, kLastOwner, kLastOwner, "k")}),
              40U);
    EXPECT_EQ(evaluated_after({random_adapter(model_, {Module::v}, kLastOwner, kLastOwner, "vv")}),
              40U);
    for (const Module module : above) {
        const AppliedAdapter below =
            random_adapter(model_, {module}, kLastOwner - 1, kLastOwner - 1, module_name(module));
        EXPECT_EQ(evaluated_after({below}), 40U) << module_name(module);
    }
}

TEST_F(SessionAdapters, ScaleZeroAndClearingGiveTheBaseBitForBit) {
    const std::vector<float> base = logits_after(*session_, tokens_);
    AppliedAdapter adapter = random_adapter(model_, {}, 0, -1, "all");
    EXPECT_EQ(evaluated_after({adapter}), 40U);
    adapter.scale = 0.0F;
    ASSERT_TRUE(session_->set_adapters({adapter}).ok());
    EXPECT_EQ(logits_after(*session_, tokens_), base);
    adapter.scale = 1.0F;
    EXPECT_EQ(evaluated_after({adapter}), 40U);
    ASSERT_TRUE(session_->set_adapters({}).ok());
    EXPECT_EQ(logits_after(*session_, tokens_), base);
}

TEST_F(SessionAdapters, SeveralAdaptersAddUp) {
    const AppliedAdapter one = random_adapter(model_, {}, 0, -1, "one");
    const AppliedAdapter two = random_adapter(model_, {Module::q, Module::down}, 2, 6, "second");
    const std::vector<float> only_one = fresh_logits(model_, tokens_, {one});
    EXPECT_EQ(evaluated_after({one, two}), 40U);
    EXPECT_GT(relative_difference(session_->logits(), only_one), 1e-3);
}

TEST_F(SessionAdapters, DecodingAfterADropNeedsANewBeginning) {
    logits_after(*session_, tokens_);
    ASSERT_TRUE(session_->set_adapters({random_adapter(model_, {}, 0, -1, "all")}).ok());
    EXPECT_EQ(session_->n_past(), 0);
    EXPECT_FALSE(session_->decode(1).ok());
}

TEST_F(SessionAdapters, NonFiniteScalesAreRefused) {
    AppliedAdapter adapter = random_adapter(model_, {}, 0, -1, "all");
    adapter.scale = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(session_->set_adapters({adapter}).ok());
    EXPECT_FALSE(session_->set_adapters({AppliedAdapter{}}).ok());
}

}  // namespace
}  // namespace lumi
