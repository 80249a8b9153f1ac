// Hostile metadata: counts, lengths, types, names, versions. Rows G1, G7, G8, G10, G11, G14, G16,
// G20, G21, G24, G27, G41, G42 of the collected cases.
#include "support/gguf_expect.h"
#include "support/gguf_walk.h"

#include <algorithm>
#include <random>

namespace lumi {

namespace {

TEST(GgufHostile, TheGoodFileOfTheseTestsIsAccepted) {
    const std::string bytes = good_gguf().build();
    const auto file = GgufFile::from_bytes(as_bytes(bytes), "good.gguf");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(walk_gguf(*file), "");
}

TEST(GgufHostile, G01_CountsPastTheFile) {
    const GgufBytes good = good_gguf();
    for (const uint64_t count : {1ULL << 60, ~0ULL, 1ULL << 63, 65537ULL}) {
        EXPECT_TRUE(refuses(good.patched("n_keys", count),
                            {"metadata keys", std::to_string(count).c_str(), "at most 65536"}));
        EXPECT_TRUE(refuses(good.patched("n_tensors", count),
                            {"tensors", std::to_string(count).c_str(), "at most 65536"}));
    }
    EXPECT_TRUE(refuses(good.patched<uint64_t>("n_keys", 65536), {"65536 metadata keys", "bytes"}));
    EXPECT_TRUE(refuses(good.patched<uint64_t>("n_tensors", 65536), {"65536 tensors", "bytes"}));
}

TEST(GgufHostile, G01_StringLengthsPastTheFile) {
    const GgufBytes good = good_gguf();
    for (const uint64_t length : {1ULL << 60, ~0ULL, ~0ULL - 7}) {
        EXPECT_TRUE(refuses(good.patched("general.architecture/name", length),
                            {"metadata key 1", "name", "truncated"}));
        EXPECT_TRUE(refuses(good.patched("general.architecture/value", length),
                            {"'general.architecture'", "truncated"}));
        EXPECT_TRUE(refuses(good.patched("output_norm.weight/name", length),
                            {"tensor 3", "name", "truncated"}));
    }
}

TEST(GgufHostile, G07_AlignmentOfTheWrongType) {
    GgufBytes file = good_gguf();
    file.key("general.alignment", 5, raw<int32_t>(32));
    EXPECT_TRUE(refuses(file.build(), {"general.alignment", "type i32", "must be u32"}));
    GgufBytes list = good_gguf();
    list.array("general.alignment", 4, 1, raw<uint32_t>(32));
    EXPECT_TRUE(refuses(list.build(), {"general.alignment", "array"}));
}

TEST(GgufHostile, G08_AlignmentOutOfRange) {
    GgufBytes file = good_gguf();
    file.u32("general.alignment", 32);
    for (const uint32_t value : {0U, 1U, 4U, 33U, 48U, 1U << 21, 1U << 31, ~0U}) {
        EXPECT_TRUE(refuses(file.patched("general.alignment/value", value),
                            {"general.alignment is", std::to_string(value).c_str()}));
    }
    const std::string bytes = file.build();
    EXPECT_TRUE(GgufFile::from_bytes(as_bytes(bytes), "aligned"));
}

TEST(GgufHostile, G10_FirstKeyClaimsPetabytes) {
    std::string bytes = "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0, 1) + raw<uint64_t>(1ULL << 50);
    bytes.resize(51, 'k');
    EXPECT_TRUE(refuses(bytes, {"metadata key 1", "1125899906842624 bytes", "truncated"}));
}

TEST(GgufHostile, G11_ArrayLengthsPastTheFile) {
    for (const uint32_t element : {0U, 4U, 8U, 10U}) {
        for (const uint64_t count : {1ULL << 63, ~0ULL, 1ULL << 61, 1000ULL}) {
            GgufBytes file;
            file.array("k", element, count, raw<uint64_t>(0));
            EXPECT_TRUE(refuses(file.build(), {"'k'", "array of", "does not fit"}));
        }
    }
}

TEST(GgufHostile, G11_NestedArrays) {
    GgufBytes file;
    file.array("k", 9, 1, raw<uint32_t>(4) + raw<uint64_t>(1) + raw<uint32_t>(0));
    EXPECT_TRUE(refuses(file.build(), {"'k'", "array of arrays"}));
}

TEST(GgufHostile, ValueTypesThatDoNotExist) {
    for (const uint32_t type : {13U, 255U, 1U << 31, ~0U}) {
        GgufBytes scalar;
        scalar.key("k", type, raw<uint64_t>(0));
        EXPECT_TRUE(refuses(scalar.build(), {"'k'", "value type", std::to_string(type).c_str()}));
        GgufBytes array;
        array.array("k", type, 1, raw<uint64_t>(0));
        EXPECT_TRUE(refuses(array.build(), {"'k'", "value type", std::to_string(type).c_str()}));
    }
}

TEST(GgufHostile, BoolsThatAreNeitherZeroNorOne) {
    EXPECT_TRUE(refuses(good_gguf().patched<uint8_t>("a.bool/value", 2), {"'a.bool'", "0 nor 1"}));
    GgufBytes file;
    file.array("k", 7, 3, raw<uint8_t>(0, 255, 1));
    EXPECT_TRUE(refuses(file.build(), {"'k'", "0 nor 1"}));
}

TEST(GgufHostile, G14_EmptyKeyAndEmptyTensorName) {
    GgufBytes file;
    file.u32("", 1);
    EXPECT_TRUE(refuses(file.build(), {"metadata key 1", "name is empty"}));
    GgufBytes tensor;
    tensor.tensor("", {32}, 0, 128);
    EXPECT_TRUE(refuses(tensor.build(), {"tensor 1", "name is empty"}));
}

TEST(GgufHostile, NamesWithNulBytes) {
    const GgufBytes good = good_gguf();
    EXPECT_TRUE(refuses(good.patched<char>("general.architecture/text", '\0'), {"NUL"}));
    EXPECT_TRUE(refuses(good.patched<char>("output_norm.weight/text", '\0'), {"NUL"}));
}

TEST(GgufHostile, NamesThatAreTooLong) {
    GgufBytes key;
    key.u32(std::string(65536, 'k'), 1);
    EXPECT_TRUE(refuses(key.build(), {"metadata key 1", "65536 bytes", "at most 65535"}));
    GgufBytes fits;
    fits.tensor(std::string(63, 't'), {32}, 0, 128);
    const std::string bytes = fits.build();
    EXPECT_TRUE(GgufFile::from_bytes(as_bytes(bytes), "fits"));
    GgufBytes tensor;
    tensor.tensor(std::string(64, 't'), {32}, 0, 128);
    EXPECT_TRUE(refuses(tensor.build(), {"tensor 1", "64 bytes", "at most 63"}));
}

TEST(GgufHostile, ControlBytesOfNamesDoNotReachTheMessage) {
    GgufBytes file;
    file.key("\x1b[2J\xff", 77, raw<uint64_t>(0));
    EXPECT_TRUE(refuses(file.build(), {"'\\x1b[2J\xef\xbf\xbd'"}));
}

TEST(GgufHostile, DuplicateKeys) {
    GgufBytes file = good_gguf();
    file.u32("general.architecture", 1);
    EXPECT_TRUE(refuses(file.build(), {"'general.architecture'", "more than once"}));
}

TEST(GgufHostile, G16_VersionOneAndVersionsToCome) {
    const std::string v1 = "GGUF" + raw<uint32_t>(1, 0, 0);  // its counts had 32 bits
    EXPECT_TRUE(refuses(v1, ErrorKind::unsupported, {"GGUF version 1", "2 and 3"}));
    const GgufBytes good = good_gguf();
    for (const uint32_t version : {0U, 1U, 4U, 1000U}) {
        EXPECT_TRUE(refuses(good.patched("version", version), ErrorKind::unsupported,
                            {"version", std::to_string(version).c_str(), "2 and 3"}));
    }
    const std::string v2 = good.patched<uint32_t>("version", 2);
    const auto file = GgufFile::from_bytes(as_bytes(v2), "v2");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(file->version(), 2U);
}

TEST(GgufHostile, G20_LastValueRunsOneBytePastTheEnd) {
    GgufBytes text;
    text.text("k", "abc");
    EXPECT_TRUE(refuses(text.patched<uint64_t>("k/value", 4), {"'k'", "4 bytes", "3 bytes later"}));
    GgufBytes texts;
    texts.texts("k", {"abc", "def"});
    const std::string whole = texts.build();
    EXPECT_TRUE(refuses(whole.substr(0, whole.size() - 1), {"'k'", "string 1"}));
    GgufBytes numbers;
    numbers.array("k", 6, 3, raw(1.0F, 2.0F) + raw<uint16_t>(0) + raw<uint8_t>(0));
    EXPECT_TRUE(refuses(numbers.build(), {"'k'", "array of 3 elements of 4 bytes"}));
}

TEST(GgufHostile, G21_VocabularyArraysOfTheWrongElementType) {
    GgufBytes file;
    file.array("tokenizer.ggml.scores", 0, 3, raw<uint8_t>(1, 2, 3))
        .array("tokenizer.ggml.token_type", 11, 2, raw<int64_t>(1, 1LL << 40))
        .texts("more.scores", {"1.0"});
    const std::string bytes = file.build();
    const auto opened = GgufFile::from_bytes(as_bytes(bytes), "vocab");
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_NE(opened->get_f32s("tokenizer.ggml.scores").error().message.find("array of u8"),
              std::string::npos);
    EXPECT_NE(opened->get_i32s("tokenizer.ggml.token_type").error().message.find("does not fit"),
              std::string::npos);
    EXPECT_NE(opened->get_f32s("more.scores").error().message.find("array of string"),
              std::string::npos);
}

TEST(GgufHostile, G24_OneLongTokenIsReadAndAClaimedOneIsNot) {
    GgufBytes file;
    file.texts("tokens", {std::string(70000, 'x'), "y"});
    const std::string bytes = file.build();
    const auto opened = GgufFile::from_bytes(as_bytes(bytes), "long");
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->get_strings("tokens").value()[0].size(), 70000U);
    std::string claimed = bytes;
    const uint64_t length = 3ULL << 30;
    std::memcpy(claimed.data() + file.at("tokens/value") + 12, &length, 8);
    EXPECT_TRUE(refuses(claimed, {"'tokens'", "string 0", "3221225472 bytes"}));
}

TEST(GgufHostile, G27_FilesOfZeroTo24Bytes) {
    const std::string whole = "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(0, 0);
    ASSERT_EQ(whole.size(), 24U);
    EXPECT_TRUE(refuses("", {"the file is empty"}));
    for (size_t n = 1; n < 4; ++n) {
        EXPECT_TRUE(refuses(whole.substr(0, n), {"not a GGUF file", "only"})) << n;
    }
    for (size_t n = 4; n < 24; ++n) {
        EXPECT_TRUE(refuses(whole.substr(0, n), {"header is truncated"})) << n;
    }
    const auto file = GgufFile::from_bytes(as_bytes(whole), "whole");
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(file->keys().empty());
    EXPECT_TRUE(file->tensors().empty());
}

TEST(GgufHostile, OtherFormatsAreNamedByTheirFirstBytes) {
    EXPECT_TRUE(refuses("<!DOCTYPE html><html>", {"not a GGUF file", "'<!DO'"}));
    EXPECT_TRUE(refuses(std::string(64, '\0'), {"not a GGUF file", "'\\x00"}));
}

TEST(GgufHostile, G41_OtherByteOrder) {
    const GgufBytes good = good_gguf();
    const auto kind = ErrorKind::unsupported;
    EXPECT_TRUE(refuses(good.patched<uint32_t>("version", 0x03000000), kind, {"big endian"}));
    EXPECT_TRUE(refuses(good.patched<uint32_t>("version", 0x02000000), kind, {"big endian"}));
    EXPECT_TRUE(refuses(good.patched_bytes("magic", "FUGG"), kind, {"big endian"}));
}

TEST(GgufHostile, G42_KeyOrderChangesNothing) {
    struct Entry {
        const char * name;
        uint32_t type;
        std::string bytes;
    };
    std::vector<Entry> entries = {
        {"general.architecture", 8, raw_text("tiny")},
        {"general.alignment", 4, raw<uint32_t>(64)},
        {"tiny.block_count", 4, raw<uint32_t>(7)},
        {"tiny.context_length", 10, raw<uint64_t>(99)},
        {"tiny.eps", 6, raw(1e-6F)},
        {"split.count", 2, raw<uint16_t>(1)},
    };
    std::mt19937 random(42);
    for (int round = 0; round < 20; ++round) {
        std::shuffle(entries.begin(), entries.end(), random);
        GgufBytes file;
        for (const Entry & entry : entries) {
            file.key(entry.name, entry.type, entry.bytes);
        }
        file.tensor("w", {8}, 0, 32);
        std::string bytes = file.build();
        // This builder aligns data to 32; the key asks for 64.
        bytes.resize((file.at("end") + 63) / 64 * 64 + 32, '\0');
        const auto opened = GgufFile::from_bytes(as_bytes(bytes), "shuffled");
        ASSERT_TRUE(opened) << opened.error().message;
        EXPECT_EQ(opened->get_string("general.architecture").value(), "tiny");
        EXPECT_EQ(opened->get_u32("tiny.block_count").value(), 7U);
        EXPECT_EQ(opened->get_u32("tiny.context_length").value(), 99U);
        EXPECT_EQ(opened->get_f32("tiny.eps").value(), 1e-6F);
        EXPECT_EQ(opened->tensors()[0].offset % 64, 0U);
    }
}

}  // namespace

}  // namespace lumi
