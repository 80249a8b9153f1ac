// Vocabulary arrays are checked, mistyped tokens corrected, ends taken from family and metadata
// (cases/tokenizers.md T2, T11, T12, T18).
#include "base/log.h"
#include "support/tiny_vocab.h"
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace lumi {
namespace {

using test::VocabFile;
using test::VocabSpec;

struct Loaded {
    explicit Loaded(const VocabSpec & vocab) : file(vocab), result(Tokenizer::load(file.gguf())) {}
    const Tokenizer & operator*() const { return **result; }
    const Tokenizer * operator->() const { return result->get(); }
    VocabFile file;
    Result<std::unique_ptr<Tokenizer>> result;
};

void expect_refused(const VocabSpec & spec, ErrorKind kind, const std::string & words) {
    const Loaded loaded(spec);
    ASSERT_FALSE(loaded.result.ok()) << words;
    EXPECT_EQ(loaded.result.error().kind, kind);
    EXPECT_NE(loaded.result.error().message.find(words), std::string::npos)
        << loaded.result.error().message;
}

TEST(Vocab, TheModelKeyAloneChoosesTheAlgorithm) {
    // Merges and scores both present: "gemma4" merges by rank, "llama" by score.
    VocabSpec spec = test::tiny_gemma4();
    const Loaded by_rank(spec);
    spec.tokenizer_model = "llama";
    std::reverse(spec.scores.begin(), spec.scores.end());
    const Loaded by_score(spec);
    ASSERT_TRUE(by_rank.result.ok() && by_score.result.ok());
    const std::string text = "The quick brown fox";
    EXPECT_NE(by_rank->encode(text, Tokenizer::Specials::plain),
              by_score->encode(text, Tokenizer::Specials::plain));
    spec.tokenizer_model = "bert";
    expect_refused(spec, ErrorKind::unsupported, "'bert'");
}

TEST(Vocab, MistypedTokensAreCorrected) {
    VocabSpec spec = test::tiny_gemma4();
    const auto retype = [&](const char * text, int32_t type) {
        spec.types[static_cast<size_t>(spec.id(text))] = type;
    };
    retype("<|turn>", 1);
    retype("<turn|>", 4);
    retype("<eos>", 1);
    retype("<|channel>", 1);
    retype("<|tool_call>", 3);
    retype("</s>", 3);
    const Loaded loaded(spec);
    ASSERT_TRUE(loaded.result.ok());
    const auto type = [&](const char * text) { return loaded->type(spec.id(text)); };
    EXPECT_EQ(type("<|turn>"), TokenType::control);
    EXPECT_EQ(type("<turn|>"), TokenType::control);
    EXPECT_EQ(type("<eos>"), TokenType::control);
    EXPECT_EQ(type("<|tool_response>"), TokenType::control);
    EXPECT_EQ(type("<|channel>"), TokenType::user_defined);
    EXPECT_EQ(type("<|tool_call>"), TokenType::user_defined);
    EXPECT_EQ(type("</s>"), TokenType::normal);
    for (const TokenId id : loaded->encode("<|turn>", Tokenizer::Specials::untrusted)) {
        EXPECT_NE(id, spec.id("<|turn>"));
    }
}

TEST(Vocab, EndsComeFromTheFamilyWhateverEosSays) {
    for (const char * eos : {"<eos>", "<turn|>", "</s>", "he"}) {
        VocabSpec spec = test::tiny_gemma4();
        spec.add("he", 1);
        spec.ints = {{"tokenizer.ggml.eos_token_id", spec.id(eos)}};
        const Loaded loaded(spec);
        ASSERT_TRUE(loaded.result.ok());
        for (const char * end : {"<eos>", "<turn|>", "<|tool_response>"}) {
            EXPECT_TRUE(loaded->is_end(spec.id(end))) << end;
        }
        EXPECT_EQ(loaded->end_tokens().size(), 3U) << eos;
        EXPECT_FALSE(loaded->is_end(spec.id("</s>")));
        EXPECT_FALSE(loaded->is_end(-1));
    }
}

TEST(Vocab, MetadataAddsItsOwnControlTokenToTheEnds) {
    VocabSpec spec = test::tiny_gemma3();
    spec.add("<my_end>", 3);
    spec.ints = {{"tokenizer.ggml.eot_token_id", spec.id("<my_end>")}};
    const Loaded loaded(spec);
    ASSERT_TRUE(loaded.result.ok());
    EXPECT_TRUE(loaded->is_end(spec.id("<my_end>")));
    EXPECT_TRUE(loaded->is_end(spec.id("<end_of_turn>")));
    EXPECT_TRUE(loaded->is_end(spec.id("<eos>")));
}

TEST(Vocab, Gemma4AddsBosEvenWhenTheFileSaysNo) {
    VocabSpec spec = test::tiny_gemma4();
    spec.flags = {{"tokenizer.ggml.add_bos_token", false}};
    EXPECT_TRUE(Loaded(spec)->add_bos());
    spec = test::tiny_gemma3();
    spec.flags = {{"tokenizer.ggml.add_bos_token", false}};
    EXPECT_FALSE(Loaded(spec)->add_bos());
}

TEST(Vocab, Qwen3AddsNoBosUnlessTheFileSaysSo) {
    VocabSpec spec = test::tiny_qwen3();
    EXPECT_FALSE(Loaded(spec)->add_bos());
    spec.flags = {{"tokenizer.ggml.add_bos_token", true}};
    EXPECT_TRUE(Loaded(spec)->add_bos());
    spec.ints.clear();
    EXPECT_EQ(Loaded(spec)->bos(), -1);
    EXPECT_FALSE(Loaded(spec)->add_bos());
}

TEST(Vocab, EndsOfQwen3AreControlTokensWhateverTheFileTypesThem) {
    const Loaded loaded(test::tiny_qwen3());
    for (const char * end : {"<|endoftext|>", "<|im_end|>", "<|fim_pad|>", "<|repo_name|>"}) {
        EXPECT_TRUE(loaded->is_end(loaded->find(end))) << end;
        EXPECT_EQ(loaded->type(loaded->find(end)), TokenType::control) << end;
    }
    EXPECT_EQ(loaded->end_tokens().size(), 4U);
}

TEST(Vocab, BadByteLevelVocabulariesAreRefusedByName) {
    VocabSpec spec = test::tiny_qwen3();
    spec.texts = {{"tokenizer.ggml.pre", "llama-bpe"}};
    expect_refused(spec, ErrorKind::unsupported, "'qwen2', 'deepseek-r1-qwen', 'gpt-2'");
    spec.texts.clear();
    expect_refused(spec, ErrorKind::invalid_file, "tokenizer.ggml.pre");
    spec = test::tiny_qwen3();
    spec.types[65] = 3;
    expect_refused(spec, ErrorKind::invalid_file, "byte 65");
    spec = test::tiny_qwen3();
    spec.types[300] = 6;
    expect_refused(spec, ErrorKind::invalid_file, "token 300 is of type byte");
}

TEST(Vocab, BosIsFoundByTextWhenTheKeyIsMissing) {
    VocabSpec spec = test::tiny_gemma4();
    spec.ints.clear();
    EXPECT_EQ(Loaded(spec)->bos(), spec.id("<bos>"));
}

TEST(Vocab, SuppressedTokensAreReadAndChecked) {
    VocabSpec spec = test::tiny_gemma4();
    spec.int_arrays = {{"tokenizer.ggml.suppress_tokens", {3, 5}}};
    EXPECT_EQ(Loaded(spec)->suppressed(), (std::vector<TokenId>{3, 5}));
    spec.int_arrays = {{"tokenizer.ggml.suppress_tokens", {-1}}};
    expect_refused(spec, ErrorKind::invalid_file, "suppress_tokens");
    spec.int_arrays = {{"tokenizer.ggml.suppress_tokens", {1 << 20}}};
    expect_refused(spec, ErrorKind::invalid_file, "1048576");
}

TEST(Vocab, MissingTypesLeaveTheFamilyTable) {
    VocabSpec spec = test::tiny_gemma4();
    spec.types.clear();
    const Loaded loaded(spec);
    ASSERT_TRUE(loaded.result.ok()) << loaded.result.error().message;
    EXPECT_EQ(loaded->type(spec.id("<|turn>")), TokenType::control);
    EXPECT_EQ(loaded->type(spec.id("<0x41>")), TokenType::byte);
}

TEST(Vocab, MissingByteTokenIsNamed) {
    VocabSpec spec = test::tiny_gemma4();
    spec.tokens[static_cast<size_t>(spec.id("<0x41>"))] = "something else";
    spec.types[static_cast<size_t>(spec.id("something else"))] = 1;
    expect_refused(spec, ErrorKind::invalid_file, "byte 65");
}

TEST(Vocab, BadArraysAreRefusedByName) {
    VocabSpec spec = test::tiny_gemma4();
    spec.types.pop_back();
    expect_refused(spec, ErrorKind::invalid_file, "token_type");
    spec = test::tiny_gemma4();
    spec.types[25] = 7;
    expect_refused(spec, ErrorKind::invalid_file, "element 25 is 7");
    spec.types[25] = 6;
    expect_refused(spec, ErrorKind::invalid_file, "type byte");
    spec = test::tiny_gemma4();
    spec.tokens.clear();
    expect_refused(spec, ErrorKind::invalid_file, "tokenizer.ggml.tokens");
    spec = test::tiny_gemma4();
    spec.ints = {{"tokenizer.ggml.bos_token_id", 1 << 30}};
    expect_refused(spec, ErrorKind::invalid_file, "bos_token_id is 1073741824");
    spec = test::tiny_gemma4();
    spec.tokens[20] = std::string(70000, 'x');
    expect_refused(spec, ErrorKind::invalid_file, "70000");
    spec = test::tiny_gemma3();
    spec.scores.pop_back();
    expect_refused(spec, ErrorKind::invalid_file, "scores");
    spec = test::tiny_gemma3();
    spec.scores[3] = std::numeric_limits<float>::quiet_NaN();
    expect_refused(spec, ErrorKind::invalid_file, "element 3 is not finite");
}

TEST(Vocab, BadMergesAreRefusedByElement) {
    for (const char * merge : {"", " ", "ab", "a ", " b", "nope nope"}) {
        VocabSpec spec = test::tiny_gemma4();
        spec.merges.insert(spec.merges.begin() + 2, merge);
        expect_refused(spec, ErrorKind::invalid_file, "element 2");
    }
    VocabSpec spec = test::tiny_gemma4();
    spec.merges.clear();
    expect_refused(spec, ErrorKind::invalid_file, "tokenizer.ggml.merges");
}

TEST(Vocab, UnusedIdsOutOfRangeAreWarnedOfByName) {
    VocabSpec spec = test::tiny_gemma4();
    spec.ints.emplace_back("tokenizer.ggml.unknown_token_id", 99999);
    spec.ints.emplace_back("tokenizer.ggml.padding_token_id", -1);
    std::string warned;
    set_log_sink([&warned](LogLevel level, std::string_view message) {
        if (level == LogLevel::warning) {
            warned += std::string(message) + "\n";
        }
    });
    const Loaded loaded(spec);
    set_log_sink({});
    ASSERT_TRUE(loaded.result.ok()) << loaded.result.error().message;
    EXPECT_NE(warned.find("tokenizer.ggml.unknown_token_id is 99999"), std::string::npos) << warned;
    EXPECT_NE(warned.find("tokenizer.ggml.padding_token_id is 4294967295"), std::string::npos);
}

TEST(Vocab, RepeatedTextsKeepTheFirstIdAndEmptyTextsMatchNothing) {
    VocabSpec spec = test::tiny_gemma4();
    const TokenId first = spec.id("\n");
    spec.add("\n", 1);
    spec.add("", 3);
    spec.add("", 4);
    const Loaded loaded(spec);
    ASSERT_TRUE(loaded.result.ok());
    EXPECT_EQ(loaded->find("\n"), first);
    EXPECT_EQ(loaded->encode("\n", Tokenizer::Specials::parse), std::vector<TokenId>{first});
}

}  // namespace
}  // namespace lumi
