// Hostile tensor tables: shapes, types, offsets, extents. Rows G2 to G6, G12, G17, G18, G26, G30
// and G32 of the collected cases.
#include "support/gguf_expect.h"

#include <climits>

namespace lumi {

namespace {

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kI8 = 24;

GgufBytes one_tensor(std::vector<uint64_t> ne, uint32_t type, uint64_t n_bytes) {
    GgufBytes file;
    file.tensor("w", std::move(ne), type, n_bytes);
    return file;
}

TEST(GgufHostile, G02_SizesThatWrapWhenAdded) {
    GgufBytes file;
    const uint64_t half = 1ULL << 62;  // bytes of an I8 tensor; four of them pass 64 bits
    for (uint64_t i = 0; i < 4; ++i) {
        file.tensor(numbered("w", i), {half}, kI8, 0);
    }
    std::string bytes = file.build();
    for (uint64_t i = 0; i < 4; ++i) {
        const uint64_t offset = i * half;
        std::memcpy(bytes.data() + file.at(numbered("w", i) + "/offset"), &offset, 8);
    }
    EXPECT_TRUE(refuses(bytes, {"tensor 'w"}));
}

TEST(GgufHostile, G03_OneDimensionPatchedToWrapTheSize) {
    const GgufBytes good = good_gguf();
    EXPECT_TRUE(refuses(good.patched<uint64_t>("token_embd.weight/ne1", (1ULL << 42) + 1),
                        {"token_embd.weight"}));
    // 2^59 rows of 32 elements: 2^64 elements, which wrap to none.
    EXPECT_TRUE(refuses(good.patched<uint64_t>("token_embd.weight/ne1", 1ULL << 59),
                        {"token_embd.weight", "more elements than 64 bits"}));
    // 2^57 rows of 32 floats: elements fit, their bytes wrap to 0.
    EXPECT_TRUE(refuses(good.patched<uint64_t>("token_embd.weight/ne1", 1ULL << 57),
                        {"token_embd.weight", "more elements than 64 bits"}));
}

TEST(GgufHostile, G04_SizeJustUnderTheLimit) {
    EXPECT_TRUE(refuses(one_tensor({INT64_MAX}, kI8, 32).build(), {"tensor 'w'"}));
    EXPECT_TRUE(refuses(one_tensor({INT64_MAX - 31}, kI8, 32).build(), {"tensor 'w'"}));
    EXPECT_TRUE(refuses(one_tensor({(1ULL << 62) - 32}, kF32, 32).build(), {"tensor 'w'"}));
}

TEST(GgufHostile, G05_NegativeProductOfDims) {
    EXPECT_TRUE(refuses(one_tensor({INT64_MAX, 2, 1, 1}, kI8, 32).build(),
                        {"tensor 1 'w'", "more elements than 64 bits"}));
    for (const uint64_t size : {1ULL << 63, ~0ULL}) {
        EXPECT_TRUE(refuses(one_tensor({size, 1}, kI8, 32).build(), {"'w'", "dimension 0 is"}));
    }
}

TEST(GgufHostile, G06_CheckedTensorBytesOnEdges) {
    uint64_t bytes = 0;
    const auto fits = [&](ggml_type type, int64_t a, int64_t b, int64_t c, int64_t d) {
        const int64_t ne[4] = {a, b, c, d};
        return checked_tensor_bytes(type, ne, bytes);
    };
    EXPECT_TRUE(fits(GGML_TYPE_Q4_K, 512, 3, 1, 1));
    EXPECT_EQ(bytes, 2U * 144 * 3);
    EXPECT_TRUE(fits(GGML_TYPE_F32, INT64_MAX / 2, 1, 1, 1));
    EXPECT_EQ(bytes, static_cast<uint64_t>(INT64_MAX / 2) * 4);
    EXPECT_FALSE(fits(GGML_TYPE_F64, INT64_MAX, 1, 1, 1));
    EXPECT_FALSE(fits(GGML_TYPE_I8, INT64_MAX, 1, 1, 2));
    EXPECT_FALSE(fits(GGML_TYPE_I8, 1LL << 32, 1LL << 31, 1, 1));
    EXPECT_FALSE(fits(GGML_TYPE_F32, 0, 1, 1, 1));
    EXPECT_FALSE(fits(GGML_TYPE_F32, 1, 1, 1, -1));
    EXPECT_FALSE(fits(GGML_TYPE_F32, INT64_MIN, INT64_MIN, 1, 1));
    EXPECT_FALSE(fits(GGML_TYPE_Q4_K, 255, 1, 1, 1));
    EXPECT_FALSE(fits(static_cast<ggml_type>(4), 32, 1, 1, 1));
    EXPECT_FALSE(fits(GGML_TYPE_COUNT, 32, 1, 1, 1));
}

TEST(GgufHostile, G12_ZeroDimensionAtEachPosition) {
    for (uint64_t i = 0; i < 4; ++i) {
        const std::string field = numbered("blk.0.attn_q.weight/ne", i);
        const std::string what = numbered("dimension ", i) + " is 0";
        EXPECT_TRUE(refuses(good_gguf().patched<uint64_t>(field, 0),
                            {"blk.0.attn_q.weight", what.c_str()}));
    }
}

TEST(GgufHostile, G17_TooManyDims) {
    const GgufBytes good = good_gguf();
    for (const uint32_t n : {0U, 5U, 9U, 1U << 31, ~0U}) {
        EXPECT_TRUE(refuses(good.patched("token_embd.weight/n_dims", n),
                            {"token_embd.weight", std::to_string(n).c_str(), "1 to 4"}));
    }
}

TEST(GgufHostile, TypesThatGgmlDoesNotKnow) {
    const GgufBytes good = good_gguf();
    for (const uint32_t type : {4U, 5U, 31U, 33U, 36U, 38U, 4096U, 1U << 31, ~0U}) {
        EXPECT_TRUE(refuses(good.patched("token_embd.weight/type", type),
                            {"token_embd.weight", "tensor type", std::to_string(type).c_str()}));
    }
}

TEST(GgufHostile, RowsThatAreNotWholeBlocks) {
    EXPECT_TRUE(refuses(one_tensor({33, 2}, kQ8_0, 72).build(), {"'w'", "33", "multiple of 32"}));
}

TEST(GgufHostile, G26_DataCutByOneByte) {
    const std::string whole = good_gguf().build();
    EXPECT_TRUE(refuses(whole.substr(0, whole.size() - 1), {"'output_norm.weight'", "truncated",
                                                            std::to_string(whole.size()).c_str()}));
}

TEST(GgufHostile, OffsetsOutsideTheFile) {
    const GgufBytes good = good_gguf();
    for (const uint64_t offset : {1ULL << 20, 1ULL << 62, (1ULL << 63) - 32, ~0ULL - 31}) {
        EXPECT_TRUE(
            refuses(good.patched("output_norm.weight/offset", offset), {"output_norm.weight"}));
    }
    EXPECT_TRUE(refuses(good.patched<uint64_t>("output_norm.weight/offset", 4),
                        {"output_norm.weight", "multiple of the alignment 32"}));
}

TEST(GgufHostile, TensorsOverEachOther) {
    const GgufBytes good = good_gguf();
    EXPECT_TRUE(refuses(good.patched<uint64_t>("output_norm.weight/offset", 0), {"overlap"}));
    EXPECT_TRUE(refuses(good.patched<uint64_t>("blk.0.attn_q.weight/offset", 352),
                        {"'token_embd.weight'", "'blk.0.attn_q.weight'", "overlap"}));
}

TEST(GgufHostile, G30_TwoTensorsOfOneName) {
    GgufBytes file = good_gguf();
    file.tensor("blk.0.attn_q.weight", {32}, kF32, 128);
    EXPECT_TRUE(refuses(file.build(), {"the tensor 'blk.0.attn_q.weight'", "more than once"}));
}

TEST(GgufHostile, G32_HalfDownloadedFileSaysTensorNeededAndFound) {
    const std::string whole = good_gguf().build();
    const std::string found = std::to_string(whole.size() - 32);
    const std::string needed = std::to_string(whole.size());
    EXPECT_TRUE(refuses(whole.substr(0, whole.size() - 32),
                        {"tensor 'output_norm.weight' needs bytes", "file is truncated",
                         found.c_str(), needed.c_str(), "download it again"}));
    // With every tensor missing, the first one in the file is named.
    EXPECT_TRUE(refuses(whole.substr(0, good_gguf().at("data")),
                        {"tensor 'token_embd.weight'", "file is truncated", needed.c_str()}));
}

}  // namespace

}  // namespace lumi
