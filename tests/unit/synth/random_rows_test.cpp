// Blocks written directly dequantise to finite numbers of the wanted spread and mean 0.

#include "synth/random_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace lumi {
namespace {

constexpr ggml_type kTypes[] = {GGML_TYPE_F32,  GGML_TYPE_F16,  GGML_TYPE_BF16, GGML_TYPE_Q4_0,
                                GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0,
                                GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

std::vector<float> dequantised(ggml_type type, const std::vector<std::byte> & rows, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    if (type == GGML_TYPE_F32) {
        std::memcpy(values.data(), rows.data(), rows.size());
    } else {
        ggml_get_type_traits(type)->to_float(rows.data(), values.data(), count);
    }
    return values;
}

TEST(RandomRows, EveryTypeHasTheWantedMeanAndDeviation) {
    constexpr int64_t kCount = 256 * 1024;
    constexpr float kSd = 0.02F;
    for (const ggml_type type : kTypes) {
        SCOPED_TRACE(ggml_type_name(type));
        ASSERT_TRUE(can_fill_random(type));
        std::vector<std::byte> rows(ggml_row_size(type, kCount));
        Rng rng(3);
        fill_random_rows(type, kSd, rng, rows);
        ASSERT_TRUE(ggml_validate_row_data(type, rows.data(), rows.size()));
        double sum = 0;
        double squares = 0;
        for (const float value : dequantised(type, rows, kCount)) {
            ASSERT_TRUE(std::isfinite(value));
            sum += static_cast<double>(value);
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        EXPECT_NEAR(sum / kCount, 0.0, 0.01 * kSd);
        EXPECT_NEAR(std::sqrt(squares / kCount), kSd, 0.1 * kSd);
    }
}

// A mean that a whole row shares would grow with sqrt(n_in) in every product.
TEST(RandomRows, RowSumsAreThoseOfIndependentNumbers) {
    constexpr int64_t kIn = 2560;
    constexpr int kRows = 256;
    for (const ggml_type type : kTypes) {
        SCOPED_TRACE(ggml_type_name(type));
        const size_t row_bytes = ggml_row_size(type, kIn);
        std::vector<std::byte> rows(row_bytes * kRows);
        Rng rng(4);
        fill_random_rows(type, 1.0F, rng, rows);
        const std::vector<float> values = dequantised(type, rows, kIn * kRows);
        double squares = 0;
        for (int r = 0; r < kRows; ++r) {
            double sum = 0;
            for (int64_t i = 0; i < kIn; ++i) {
                sum += static_cast<double>(values[static_cast<size_t>(r * kIn + i)]);
            }
            squares += sum * sum / kIn;
        }
        EXPECT_LT(std::sqrt(squares / kRows), 2.0);  // 1 when independent
    }
}

TEST(RandomRows, CuttingTheRowsDoesNotChangeTheBytes) {
    for (const ggml_type type : kTypes) {
        SCOPED_TRACE(ggml_type_name(type));
        const size_t row_bytes = ggml_row_size(type, 256);
        std::vector<std::byte> whole(row_bytes * 8);
        std::vector<std::byte> cut(whole.size());
        Rng a(5);
        Rng b(5);
        fill_random_rows(type, 1.0F, a, whole);
        fill_random_rows(type, 1.0F, b, std::span(cut).first(row_bytes));
        fill_random_rows(type, 1.0F, b, std::span(cut).subspan(row_bytes));
        EXPECT_EQ(whole, cut);
    }
}

TEST(RandomRows, TypesItCannotWriteAreKnown) {
    EXPECT_FALSE(can_fill_random(GGML_TYPE_I32));
    EXPECT_FALSE(can_fill_random(GGML_TYPE_IQ2_XXS));
}

}  // namespace
}  // namespace lumi
