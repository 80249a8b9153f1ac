// Whole files: cut at every byte, each header byte changed, joined, split, trailing bytes, and how
// long an answer takes. Rows G15, G36, G38, G39, G43, G45 of the collected cases.
#include "support/gguf_expect.h"
#include "support/gguf_walk.h"
#include "support/temp_dir.h"

#include <chrono>

#include <fcntl.h>
#include <unistd.h>

namespace lumi {

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Opens a copy of exactly these bytes and walks it; what went wrong, or "".
std::string open_and_walk(const std::string & bytes) {
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto file = GgufFile::from_bytes(std::as_bytes(std::span(exact)), "changed.gguf");
    if (file) {
        return walk_gguf(*file);
    }
    return file.error().message.starts_with("changed.gguf: ") ? "" : "no file name in the message";
}

TEST(GgufHostile, G15_CutAtEveryByte) {
    const std::string whole = good_gguf().build();
    for (size_t n = 0; n < whole.size(); ++n) {
        const std::vector<char> exact(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n));
        const auto file = GgufFile::from_bytes(std::as_bytes(std::span(exact)), "cut.gguf");
        ASSERT_FALSE(file) << "accepted " << n << " of " << whole.size() << " bytes";
        ASSERT_EQ(file.error().kind, ErrorKind::invalid_file) << file.error().message;
    }
}

TEST(GgufHostile, EachHeaderByteChanged) {
    const GgufBytes good = good_gguf();
    const std::string whole = good.build();
    size_t accepted = 0;
    for (size_t at = 0; at < good.at("end"); ++at) {
        std::vector<char> values = {'\0', '\1', '\x7f', '\xff', ' '};
        for (int bit = 0; bit < 8; ++bit) {
            values.push_back(static_cast<char>(whole[at] ^ (1 << bit)));
        }
        for (const char value : values) {
            std::string changed = whole;
            changed[at] = value;
            ASSERT_EQ(open_and_walk(changed), "") << "byte " << at << " = " << int{value};
            accepted += GgufFile::from_bytes(as_bytes(changed), "changed").ok() ? 1 : 0;
        }
    }
    EXPECT_GT(accepted, 100U) << "names and values may change; else the walk saw nothing";
}

TEST(GgufHostile, G36_FilesJoinedWithCat) {
    const std::string whole = good_gguf().build();
    const std::string at = "starts at byte " + std::to_string(whole.size());
    EXPECT_TRUE(refuses(whole + whole, {"second GGUF file", at.c_str(), "joined"}));
    GgufBytes vocabulary;
    vocabulary.text("general.architecture", "tiny");
    EXPECT_TRUE(refuses(vocabulary.build() + whole, {"second GGUF file"}));
    // The first file padded to the alignment, as most writers do.
    GgufBytes odd;
    odd.tensor("w", {3}, 0, 12);
    EXPECT_TRUE(refuses(odd.build() + std::string(20, '\0') + whole, {"second GGUF file"}));
    // Shards joined: the second magic is the better explanation than the count of parts.
    GgufBytes shard = good_gguf();
    shard.key("split.count", 2, raw<uint16_t>(2));
    EXPECT_TRUE(refuses(shard.build() + shard.build(), {"second GGUF file", "--merge"}));
}

TEST(GgufHostile, BytesAfterTheLastTensor) {
    const std::string whole = good_gguf().build();
    EXPECT_TRUE(refuses(whole + "x", {"1 bytes follow the last tensor"}));
    GgufBytes odd;
    odd.tensor("w", {3}, 0, 12);
    const std::string padded = odd.build() + std::string(20, '\0');
    EXPECT_TRUE(GgufFile::from_bytes(as_bytes(padded), "padded")) << "padding is not foreign";
    EXPECT_TRUE(refuses(padded + "x", {"1 bytes follow the last tensor"}));
}

TEST(GgufHostile, G38_G39_SplitFilesAreSaidNotToBeReadYet) {
    for (const auto & [type, value] : {std::pair(2U, raw<uint16_t>(3)), {4U, raw<uint32_t>(3)}}) {
        GgufBytes part = good_gguf();
        part.key("split.no", type, value).key("split.count", type, value);
        EXPECT_TRUE(refuses(part.build(), ErrorKind::unsupported,
                            {"split into 3 files", "not read yet", "merge"}));
    }
    GgufBytes single = good_gguf();
    single.key("split.count", 2, raw<uint16_t>(1));
    const std::string bytes = single.build();
    EXPECT_TRUE(GgufFile::from_bytes(as_bytes(bytes), "single"));
    GgufBytes mistyped = good_gguf();
    mistyped.text("split.count", "3");
    EXPECT_TRUE(refuses(mistyped.build(), {"'split.count'", "type string"}));
}

TEST(GgufHostile, G43_AVocabularyOf262144TokensOpensFast) {
    GgufBytes file;
    std::string tokens;
    for (uint64_t i = 0; i < 262144; ++i) {
        tokens += raw_text(numbered("token", i));
    }
    file.array("tokenizer.ggml.tokens", 8, 262144, tokens);
    const std::string bytes = file.build();
    const auto start = Clock::now();
    const auto opened = GgufFile::from_bytes(as_bytes(bytes), "vocab");
    ASSERT_TRUE(opened) << opened.error().message;
    const auto texts = opened->get_strings("tokenizer.ggml.tokens");
    const double ms = ms_since(start);
    EXPECT_EQ(texts.value().back(), "token262143");
    EXPECT_LT(ms, 1000.0) << "milliseconds";
}

// 65536 keys and tensors with long common prefixes: what pairwise duplicate checks choke on.
TEST(GgufHostile, G43_TheMostKeysAndTensorsOpenFast) {
    GgufBytes file;
    const std::string prefix(48, 'p');
    for (uint64_t i = 0; i < 65536; ++i) {
        file.key(numbered(prefix, i), 0, raw<uint8_t>(1));
        file.tensor(numbered(prefix, i), {8}, 0, 32);
    }
    const std::string bytes = file.build();
    const auto start = Clock::now();
    const auto opened = GgufFile::from_bytes(as_bytes(bytes), "many");
    const double ms = ms_since(start);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->tensors().size(), 65536U);
    EXPECT_LT(ms, 2000.0) << "milliseconds";
}

TEST(GgufHostile, G45_AnErrorInABigFileComesAtOnce) {
    const TempDir dir;
    const std::string path = dir.file("big.gguf");
    GgufBytes big;
    for (uint64_t i = 0; i < 8; ++i) {
        big.tensor(numbered("w", i), {1ULL << 28}, 0, 0);
    }
    std::string header = big.build();
    for (uint64_t i = 0; i < 8; ++i) {
        const uint64_t offset = i << 30;
        std::memcpy(header.data() + big.at(numbered("w", i) + "/offset"), &offset, 8);
    }
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(write(fd, header.data(), header.size()), static_cast<ssize_t>(header.size()));
    ASSERT_EQ(ftruncate(fd, 8LL << 30), 0);  // sparse; the last tensor lacks the header's bytes
    close(fd);
    const auto start = Clock::now();
    const auto file = GgufFile::open(path);
    const double ms = ms_since(start);
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().message.find("tensor 'w7' needs bytes"), std::string::npos)
        << file.error().message;
    EXPECT_LT(ms, 50.0) << "milliseconds";
}

}  // namespace

}  // namespace lumi
