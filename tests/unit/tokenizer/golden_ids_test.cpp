// Ids equal to llama.cpp's on frozen lists: ids, not text, because a wrong algorithm still
// round-trips (cases/tokenizers.md T1, T2, T3).
#include "support/tiny_vocab.h"
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace lumi {
namespace {

using test::VocabFile;

std::string unescaped(const std::string & text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\') {
            out += text[i];
            continue;
        }
        const char next = text[++i];
        out += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next;
    }
    return out;
}

std::vector<TokenId> numbers(const std::string & text) {
    std::istringstream in(text);
    std::vector<TokenId> ids;
    for (TokenId id = 0; in >> id;) {
        ids.push_back(id);
    }
    return ids;
}

void expect_golden_ids(const Tokenizer & tokenizer, const std::string & name) {
    std::ifstream in(LUMI_SOURCE_DIR "/tests/golden/tokenizer/" + name);
    size_t cases = 0;
    for (std::string line; std::getline(in, line); ++cases) {
        const size_t first = line.find('\t');
        const size_t last = line.rfind('\t');
        ASSERT_LT(first, last) << line;
        const auto specials = line.substr(0, first) == "parse" ? Tokenizer::Specials::parse
                                                               : Tokenizer::Specials::plain;
        const std::string text = unescaped(line.substr(first + 1, last - first - 1));
        EXPECT_EQ(tokenizer.encode(text, specials), numbers(line.substr(last + 1))) << line;
    }
    EXPECT_GE(cases, 70U) << name;
}

// Where the big vocabularies are: LUMI_VOCAB_DIR, else shared/data/vocab beside the checkout.
std::filesystem::path vocab_dir() {
    const char * set = std::getenv("LUMI_VOCAB_DIR");
    return set != nullptr ? set : LUMI_SOURCE_DIR "/../shared/data/vocab";
}

std::filesystem::path gemma3_file() {
    const char * set = std::getenv("LUMI_GEMMA3_GGUF");
    return set != nullptr ? set : LUMI_SOURCE_DIR "/.deps/models/gemma3-270m-q4_k_m.gguf";
}

// A tokenizer and the file it came from; skips the test, visibly, when there is no file.
#define LUMI_OPEN_OR_SKIP(path)                                                                    \
    if (!std::filesystem::exists(path)) {                                                          \
        GTEST_SKIP() << (path) << " is not here; the tiny vocabularies are tested all the same";   \
    }                                                                                              \
    const Result<GgufFile> file = GgufFile::open((path).string());                                 \
    ASSERT_TRUE(file.ok()) << file.error().message;                                                \
    const Result<std::unique_ptr<Tokenizer>> loaded = Tokenizer::load(*file);                      \
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;                                            \
    const Tokenizer & tokenizer = **loaded

TEST(GoldenIds, TinyGemma4VocabularyGivesLlamaCppsIds) {
    const VocabFile file(test::tiny_gemma4());
    const auto tokenizer = Tokenizer::load(file.gguf());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    expect_golden_ids(**tokenizer, "tiny_gemma4.txt");
}

TEST(GoldenIds, TinyGemma3VocabularyGivesLlamaCppsIds) {
    const VocabFile file(test::tiny_gemma3());
    const auto tokenizer = Tokenizer::load(file.gguf());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    expect_golden_ids(**tokenizer, "tiny_gemma3.txt");
}

TEST(GoldenIds, RealGemma4VocabularyGivesLlamaCppsIds) {
    const std::filesystem::path path = vocab_dir() / "ggml-vocab-gemma-4.gguf";
    LUMI_OPEN_OR_SKIP(path);
    EXPECT_EQ(tokenizer.n_tokens(), 262144);
    EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{1, 50, 106}));
    expect_golden_ids(tokenizer, "gemma4.txt");
}

TEST(GoldenIds, TinyQwen3VocabularyGivesLlamaCppsIds) {
    const VocabFile file(test::tiny_qwen3());
    const auto tokenizer = Tokenizer::load(file.gguf());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    expect_golden_ids(**tokenizer, "tiny_qwen3.txt");
}

TEST(GoldenIds, RealQwen2VocabularyGivesLlamaCppsIds) {
    const std::filesystem::path path = vocab_dir() / "ggml-vocab-qwen2.gguf";
    LUMI_OPEN_OR_SKIP(path);
    EXPECT_EQ(tokenizer.n_tokens(), 151936);
    EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{151643, 151645}));
    EXPECT_FALSE(tokenizer.add_bos());
    expect_golden_ids(tokenizer, "qwen2.txt");
}

// The vectors that come with a vocabulary: texts between marker lines, a line of ids each.
class OwnVectors : public testing::TestWithParam<const char *> {};

TEST_P(OwnVectors, RealVocabularyPassesThem) {
    const std::filesystem::path path =
        vocab_dir() / (std::string("ggml-vocab-") + GetParam() + ".gguf");
    LUMI_OPEN_OR_SKIP(path);
    std::ifstream inputs(path.string() + ".inp");
    std::ifstream outputs(path.string() + ".out");
    std::string all((std::istreambuf_iterator<char>(inputs)), std::istreambuf_iterator<char>());
    const std::string marker = "\n__ggml_vocab_test__\n";
    size_t cases = 0;
    for (std::string line; std::getline(outputs, line); ++cases) {
        const size_t end = all.find(marker);
        const std::string text = all.substr(0, end);
        EXPECT_EQ(tokenizer.encode(text, Tokenizer::Specials::plain), numbers(line)) << text;
        all.erase(0, end == std::string::npos ? all.size() : end + marker.size());
    }
    EXPECT_EQ(cases, 46U);
    EXPECT_TRUE(all.empty());
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, OwnVectors, testing::Values("gemma-4", "qwen2", "gpt-2"),
                         [](const auto & test) {
                             std::string name = test.param;
                             std::erase(name, '-');
                             return name;
                         });

TEST(GoldenIds, RealGemma3VocabularyGivesLlamaCppsIds) {
    const std::filesystem::path path = gemma3_file();
    LUMI_OPEN_OR_SKIP(path);
    EXPECT_EQ(tokenizer.end_tokens(), (std::vector<TokenId>{1, 106}));
    expect_golden_ids(tokenizer, "gemma3.txt");
    // An HTML tag of the vocabulary; llama.cpp would end the answer here.
    EXPECT_EQ(tokenizer.encode("</s>", Tokenizer::Specials::plain), (std::vector<TokenId>{212}));
}

}  // namespace
}  // namespace lumi
