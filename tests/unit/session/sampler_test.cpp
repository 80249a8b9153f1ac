// The sampler: each rule against a plain reference, and everything hostile that can reach it.
#include "session/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace lumi {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplerOptions plain_options() {
    SamplerOptions options;
    options.temperature = 1.0F;
    options.top_k = 0;
    options.top_p = 1.0F;
    return options;
}

std::vector<float> random_logits(uint64_t seed, int n) {
    Rng rng(seed);
    std::vector<float> logits(static_cast<size_t>(n));
    for (float & x : logits) {
        x = static_cast<float>(3.0 * rng.normal());
    }
    return logits;
}

std::vector<double> softmax(const std::vector<float> & logits, double temperature = 1.0) {
    std::vector<double> p;
    double sum = 0.0;
    for (const float x : logits) {
        p.push_back(std::exp(static_cast<double>(x) / temperature));
        sum += p.back();
    }
    for (double & x : p) {
        x /= sum;
    }
    return p;
}

// Shares of tokens in n draws.
std::vector<double> drawn_shares(SamplerOptions options, const std::vector<float> & logits, int n,
                                 const std::vector<int32_t> & history = {}) {
    Sampler sampler(std::move(options), static_cast<int>(logits.size()));
    std::vector<double> shares(logits.size(), 0.0);
    for (int i = 0; i < n; ++i) {
        const Result<int32_t> token = sampler.sample(logits, history);
        EXPECT_TRUE(token.ok());
        shares[static_cast<size_t>(*token)] += 1.0 / n;
    }
    return shares;
}

std::set<int32_t> drawn_set(const SamplerOptions & options, const std::vector<float> & logits) {
    const std::vector<double> shares = drawn_shares(options, logits, 3000);
    std::set<int32_t> tokens;
    for (size_t i = 0; i < shares.size(); ++i) {
        if (shares[i] > 0.0) {
            tokens.insert(static_cast<int32_t>(i));
        }
    }
    return tokens;
}

std::vector<int32_t> by_probability(const std::vector<float> & logits) {
    std::vector<int32_t> order(logits.size());
    for (size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<int32_t>(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    return order;
}

TEST(Sampler, DrawsFollowTheDistributionAtEveryTemperature) {
    const std::vector<float> logits = random_logits(1, 8);
    for (const float temperature : {0.5F, 1.0F, 2.0F}) {
        SamplerOptions options = plain_options();
        options.temperature = temperature;
        const std::vector<double> shares = drawn_shares(options, logits, 20000);
        const std::vector<double> p = softmax(logits, static_cast<double>(temperature));
        for (size_t i = 0; i < p.size(); ++i) {
            // Four standard deviations of a share.
            EXPECT_NEAR(shares[i], p[i], 4.0 * std::sqrt(p[i] * (1.0 - p[i]) / 20000.0) + 1e-4);
        }
    }
}

TEST(Sampler, GreedyTakesTheLowestIdOfEqualLogits) {
    SamplerOptions options = plain_options();
    options.temperature = 0.0F;
    Sampler sampler(options, 6);
    const std::vector<float> logits = {1.0F, 5.0F, -2.0F, 5.0F, 5.0F, 0.0F};
    EXPECT_EQ(*sampler.sample(logits, {}), 1);
    EXPECT_EQ(*sampler.sample(std::vector<float>(6, -3.0F), {}), 0);
}

TEST(Sampler, TopKKeepsExactlyTheBestKWithTiesToTheLowerId) {
    SamplerOptions options = plain_options();
    options.top_k = 3;
    options.temperature = 50.0F;  // nearly flat: everything kept is drawn
    EXPECT_EQ(drawn_set(options, {2.0F, 1.0F, 2.0F, 3.0F, 2.0F, 2.0F}),
              (std::set<int32_t>{0, 2, 3}));
    options.top_k = 1;
    EXPECT_EQ(drawn_set(options, random_logits(2, 40)),
              (std::set<int32_t>{by_probability(random_logits(2, 40))[0]}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesP) {
    const std::vector<float> logits = random_logits(3, 30);
    const std::vector<double> p = softmax(logits);
    const std::vector<int32_t> order = by_probability(logits);
    for (const float top_p : {0.05F, 0.5F, 0.9F, 0.97F}) {
        std::set<int32_t> expected;
        double sum = 0.0;
        for (const int32_t token : order) {
            expected.insert(token);
            sum += p[static_cast<size_t>(token)];
            if (sum >= static_cast<double>(top_p)) {
                break;
            }
        }
        SamplerOptions options = plain_options();
        options.top_p = top_p;
        options.temperature = 50.0F;  // comes after top-p: the set stays, the draws spread
        EXPECT_EQ(drawn_set(options, logits), expected) << top_p;
    }
}

TEST(Sampler, TopPOfAFlatVocabularyKeepsItsShare) {
    // More candidates than the first sorted stretch: the set grows until p is reached.
    const std::vector<float> logits(4000, 1.5F);
    SamplerOptions options = plain_options();
    options.top_p = 0.5F;
    Sampler sampler(options, 4000);
    int32_t highest = 0;
    for (int i = 0; i < 300; ++i) {
        highest = std::max(highest, *sampler.sample(logits, {}));
    }
    EXPECT_LT(highest, 2001);
    EXPECT_GT(highest, 1800);
}

TEST(Sampler, MinPIsRelativeToTheBest) {
    const std::vector<float> logits = {0.0F, std::log(0.5F), std::log(0.2F), std::log(0.05F)};
    SamplerOptions options = plain_options();
    options.temperature = 50.0F;
    options.min_p = 0.1F;
    EXPECT_EQ(drawn_set(options, logits), (std::set<int32_t>{0, 1, 2}));
    options.min_p = 1.0F;
    EXPECT_EQ(drawn_set(options, logits), (std::set<int32_t>{0}));
}

TEST(Sampler, PenaltiesChangeLogitsByTheStatedRule) {
    const std::vector<float> logits = {2.0F, -1.0F, 0.5F, 0.0F};
    const std::vector<int32_t> history = {3, 0, 1, 0};
    SamplerOptions options = plain_options();
    options.repeat_penalty = 2.0F;
    options.frequency_penalty = 0.3F;
    options.presence_penalty = 0.1F;
    options.repeat_window = 3;  // token 3 has left the window
    const std::vector<double> p = softmax({2.0F / 2.0F - 0.7F, -1.0F * 2.0F - 0.4F, 0.5F, 0.0F});
    const std::vector<double> shares = drawn_shares(options, logits, 20000, history);
    for (size_t i = 0; i < p.size(); ++i) {
        EXPECT_NEAR(shares[i], p[i], 0.015);
    }
    options.repeat_window = -1;  // all of it
    const std::vector<double> all = softmax({0.3F, -2.4F, 0.5F, -0.4F});
    const std::vector<double> all_shares = drawn_shares(options, logits, 20000, history);
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_NEAR(all_shares[i], all[i], 0.015);
    }
}

TEST(Sampler, BiasAndSuppressionComeFirst) {
    SamplerOptions options = plain_options();
    options.temperature = 0.0F;
    options.logit_bias = {{2, 10.0F}, {0, -kInf}};
    Sampler biased(options, 4);
    EXPECT_EQ(*biased.sample(std::vector<float>{5.0F, 4.0F, 0.0F, 1.0F}, {}), 2);
    options.suppressed = {2};
    Sampler suppressed(options, 4);
    EXPECT_EQ(*suppressed.sample(std::vector<float>{5.0F, 4.0F, 0.0F, 1.0F}, {}), 1);
    options.suppressed = {1, 2, 3};
    Sampler nothing_left(options, 4);
    const Result<int32_t> none =
        nothing_left.sample(std::vector<float>{5.0F, 4.0F, 0.0F, 1.0F}, {});
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::numeric);
}

TEST(Sampler, SuppressedTokensAreNeverDrawn) {
    SamplerOptions options = plain_options();
    options.suppressed = {0, 5};
    const std::set<int32_t> tokens = drawn_set(options, std::vector<float>(8, 0.0F));
    EXPECT_EQ(tokens, (std::set<int32_t>{1, 2, 3, 4, 6, 7}));
}

TEST(Sampler, SameSeedSameTokensOtherSeedOthers) {
    const std::vector<float> logits = random_logits(4, 500);
    std::vector<std::vector<int32_t>> runs;
    for (const uint64_t seed : {7U, 7U, 8U}) {
        SamplerOptions options = plain_options();
        options.seed = seed;
        Sampler sampler(options, 500);
        runs.emplace_back();
        for (int i = 0; i < 50; ++i) {
            runs.back().push_back(*sampler.sample(logits, {}));
        }
    }
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_NE(runs[0], runs[2]);
}

// cases/inference.md M12.
TEST(Sampler, BrokenLogitsAreANumericError) {
    const std::vector<std::vector<float>> broken = {
        {kNan, kNan, kNan}, {0.0F, kNan, 1.0F}, {-kInf, -kInf, -kInf}, {0.0F, kInf, 1.0F}};
    for (const float temperature : {0.0F, 1.0F}) {
        SamplerOptions options = plain_options();
        options.temperature = temperature;
        Sampler sampler(options, 3);
        for (const std::vector<float> & logits : broken) {
            const Result<int32_t> token = sampler.sample(logits, {});
            ASSERT_FALSE(token.ok());
            EXPECT_EQ(token.error().kind, ErrorKind::numeric);
            EXPECT_FALSE(Sampler::log_probability(logits, 0).ok());
            EXPECT_FALSE(Sampler::top_log_probabilities(logits, 1).ok());
        }
        // Single -inf logits are a model's way to say never.
        EXPECT_EQ(*sampler.sample(std::vector<float>{-kInf, 2.0F, -kInf}, {}), 1);
    }
    Sampler sampler(plain_options(), 3);
    EXPECT_FALSE(sampler.sample(std::vector<float>{0.0F, 1.0F}, {}).ok());
}

TEST(Sampler, ExtremeButFiniteLogitsAndOptionsStayFinite) {
    const float huge = std::numeric_limits<float>::max();
    SamplerOptions options = plain_options();
    options.temperature = std::numeric_limits<float>::denorm_min();
    options.repeat_penalty = 0.01F;
    options.top_p = 0.9F;
    options.min_p = 1e-30F;
    ASSERT_TRUE(options.check(3).ok());
    Sampler sampler(options, 3);
    EXPECT_EQ(*sampler.sample(std::vector<float>{huge, -huge, 0.0F}, std::vector<int32_t>{0, 1}),
              0);
    EXPECT_EQ(
        *sampler.sample(std::vector<float>{-huge, -huge, -1.0F}, std::vector<int32_t>{-5, 99}), 2);
}

TEST(Sampler, LogProbabilitiesAreOfTheModelsOwnDistribution) {
    const std::vector<float> logits = random_logits(5, 100);
    const std::vector<double> p = softmax(logits);
    const std::vector<int32_t> order = by_probability(logits);
    const Result<std::vector<TokenProbability>> best = Sampler::top_log_probabilities(logits, 5);
    ASSERT_TRUE(best.ok());
    ASSERT_EQ(best->size(), 5U);
    for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ((*best)[i].token, order[i]);
        EXPECT_NEAR((*best)[i].log_probability, std::log(p[static_cast<size_t>(order[i])]), 1e-5);
    }
    EXPECT_NEAR(*Sampler::log_probability(logits, 17), std::log(p[17]), 1e-5);
    EXPECT_TRUE(Sampler::top_log_probabilities(logits, 0)->empty());
    EXPECT_FALSE(Sampler::top_log_probabilities(logits, 101).ok());
    EXPECT_FALSE(Sampler::top_log_probabilities(logits, -1).ok());
    EXPECT_FALSE(Sampler::log_probability(logits, 100).ok());
    EXPECT_FALSE(Sampler::log_probability(logits, -1).ok());
}

TEST(SamplerOptions, EveryFieldOutOfRangeIsNamed) {
    struct Wrong {
        const char * field;
        void (*set)(SamplerOptions &);
    };
    const Wrong wrong[] = {
        {"temperature", [](SamplerOptions & o) { o.temperature = -0.1F; }},
        {"temperature", [](SamplerOptions & o) { o.temperature = kNan; }},
        {"temperature", [](SamplerOptions & o) { o.temperature = kInf; }},
        {"top_k", [](SamplerOptions & o) { o.top_k = -1; }},
        {"top_p", [](SamplerOptions & o) { o.top_p = 0.0F; }},
        {"top_p", [](SamplerOptions & o) { o.top_p = 1.01F; }},
        {"top_p", [](SamplerOptions & o) { o.top_p = kNan; }},
        {"min_p", [](SamplerOptions & o) { o.min_p = -0.01F; }},
        {"min_p", [](SamplerOptions & o) { o.min_p = 1.5F; }},
        {"repeat_penalty", [](SamplerOptions & o) { o.repeat_penalty = 0.0F; }},
        {"repeat_penalty", [](SamplerOptions & o) { o.repeat_penalty = kNan; }},
        {"frequency_penalty", [](SamplerOptions & o) { o.frequency_penalty = kInf; }},
        {"presence_penalty", [](SamplerOptions & o) { o.presence_penalty = -kInf; }},
        {"repeat_window", [](SamplerOptions & o) { o.repeat_window = -2; }},
        {"logit_bias", [](SamplerOptions & o) { o.logit_bias[100] = 1.0F; }},
        {"logit_bias", [](SamplerOptions & o) { o.logit_bias[-1] = 1.0F; }},
        {"logit_bias", [](SamplerOptions & o) { o.logit_bias[3] = kNan; }},
        {"logit_bias", [](SamplerOptions & o) { o.logit_bias[3] = kInf; }},
        {"suppressed", [](SamplerOptions & o) { o.suppressed = {100}; }},
        {"suppressed", [](SamplerOptions & o) { o.suppressed = {-1}; }},
    };
    for (const Wrong & w : wrong) {
        SamplerOptions options;
        ASSERT_TRUE(options.check(100).ok());
        w.set(options);
        const Status status = options.check(100);
        ASSERT_FALSE(status.ok()) << w.field;
        EXPECT_EQ(status.error().kind, ErrorKind::invalid_argument);
        EXPECT_NE(status.error().message.find(w.field), std::string::npos)
            << status.error().message;
    }
}

}  // namespace
}  // namespace lumi
