// The numbers of dropout: how many are zero, what their mean is, and what they depend on.
#include "graph/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace lumi {
namespace {

std::vector<float> factors(uint64_t seed, float probability, size_t n) {
    std::vector<float> values(n);
    fill_dropout(seed, probability, values);
    return values;
}

TEST(Dropout, ZeroesTheShareAskedForAndKeepsTheMean) {
    constexpr size_t kCount = 400001;  // odd: the last number has half of a draw
    for (const float p : {0.05F, 0.1F, 0.5F, 0.9F}) {
        const std::vector<float> values = factors(42, p, kCount);
        const auto zeros = static_cast<double>(std::count(values.begin(), values.end(), 0.0F));
        const double mean = std::accumulate(values.begin(), values.end(), 0.0) / kCount;
        // Five standard deviations of a binomial count.
        const auto share = static_cast<double>(p);
        const double deviation = std::sqrt(share * (1 - share) / kCount);
        EXPECT_NEAR(zeros / kCount, share, 5 * deviation) << p;
        EXPECT_NEAR(mean, 1.0, 5 * deviation / (1 - share)) << p;
        for (const float x : values) {
            ASSERT_TRUE(x == 0.0F || x == 1.0F / (1.0F - p));
        }
    }
}

TEST(Dropout, ZeroProbabilityDropsNothing) {
    const std::vector<float> values = factors(1, 0.0F, 1000);
    EXPECT_EQ(values, std::vector<float>(1000, 1.0F));
}

// Neighbours are independent, also across the two halves of one draw.
TEST(Dropout, NeighboursAreIndependent) {
    const std::vector<float> values = factors(3, 0.5F, 200000);
    for (const size_t distance : {1U, 2U, 64U, 2560U}) {
        size_t equal = 0;
        const size_t n = values.size() - distance;
        for (size_t i = 0; i < n; ++i) {
            equal += values[i] == values[i + distance] ? 1 : 0;
        }
        EXPECT_NEAR(static_cast<double>(equal) / static_cast<double>(n), 0.5, 0.006) << distance;
    }
}

TEST(Dropout, SameSeedSameNumbersAndEveryRunItsOwn) {
    EXPECT_EQ(factors(9, 0.3F, 999), factors(9, 0.3F, 999));
    std::set<uint64_t> seeds;
    for (uint64_t training = 0; training < 4; ++training) {
        for (uint64_t step = 0; step < 20; ++step) {
            for (uint64_t run = 0; run < 5; ++run) {
                const uint64_t seed = dropout_seed(training, step, run);
                EXPECT_EQ(seed, dropout_seed(training, step, run));
                EXPECT_TRUE(seeds.insert(seed).second) << training << " " << step << " " << run;
            }
        }
    }
    EXPECT_NE(factors(dropout_seed(1, 0, 0), 0.3F, 99), factors(dropout_seed(1, 1, 0), 0.3F, 99));
}

TEST(Dropout, StretchesStartApartAtBindableOffsetsAndFit) {
    constexpr int64_t kLongest = 1000;
    for (int64_t pair = 0; pair < 300; ++pair) {
        EXPECT_EQ(dropout_start(pair) * 4 % 256, 0);
        EXPECT_GT(dropout_start(pair + 1), dropout_start(pair));
    }
    EXPECT_GE(dropout_factors(300, kLongest), dropout_start(299) + kLongest);
}

}  // namespace
}  // namespace lumi
