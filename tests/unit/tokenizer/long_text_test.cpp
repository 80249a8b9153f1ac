// Encoding stays linearithmic: a quadratic merge takes minutes where these take a fraction of a
// second (cases/tokenizers.md T7).
#include "support/tiny_vocab.h"
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <random>

namespace lumi {
namespace {

using test::VocabFile;

constexpr size_t kMegabyte = size_t{1} << 20;

std::string repeated(std::string_view unit) {
    std::string text;
    while (text.size() < kMegabyte) {
        text += unit;
    }
    return text;
}

std::string base64_noise() {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::mt19937 random(7);
    std::string text;
    while (text.size() < kMegabyte) {
        text += kAlphabet[random() % 64];
    }
    return text;
}

void expect_fast(const Tokenizer & tokenizer, const std::string & text, const char * what) {
    const std::clock_t begin = std::clock();
    const std::vector<TokenId> ids = tokenizer.encode(text, Tokenizer::Specials::parse);
    const double cpu_seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(cpu_seconds, 2.0) << what;
    EXPECT_GT(ids.size(), 1000U) << what;
    if (text.find("\xe2\x96\x81") == std::string::npos) {
        EXPECT_EQ(tokenizer.decode(ids, true), text) << what;
    }
}

void expect_all_fast(const test::VocabSpec & spec) {
    const VocabFile file(spec);
    const auto tokenizer = Tokenizer::load(file.gguf());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    expect_fast(**tokenizer, repeated("a"), "a");
    expect_fast(**tokenizer, repeated(" "), "spaces");
    expect_fast(**tokenizer, repeated("\xe2\x96\x81"), "U+2581");
    expect_fast(**tokenizer, repeated("\n"), "newlines");
    expect_fast(**tokenizer, repeated("<"), "a special text's first byte");
    expect_fast(**tokenizer, repeated("\xff"), "invalid bytes");
    expect_fast(**tokenizer, repeated(" \n"), "spaces and newlines");
    expect_fast(**tokenizer, repeated("\xe3\x80\x80"), "wide spaces");
    expect_fast(**tokenizer, repeated("'"), "apostrophes");
    expect_fast(**tokenizer, base64_noise(), "base64");
}

TEST(LongText, MegabyteWordsOfGemma4AreFast) {
    expect_all_fast(test::tiny_gemma4());
}

TEST(LongText, MegabyteWordsOfGemma3AreFast) {
    expect_all_fast(test::tiny_gemma3());
}

TEST(LongText, MegabyteWordsOfQwen3AreFast) {
    expect_all_fast(test::tiny_qwen3());
}

TEST(LongText, MegabyteWordsOfGpt2AreFast) {
    test::VocabSpec spec = test::tiny_qwen3();
    spec.texts = {{"tokenizer.ggml.pre", "gpt-2"}};
    expect_all_fast(spec);
}

}  // namespace
}  // namespace lumi
