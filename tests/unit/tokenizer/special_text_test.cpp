// Which texts become special ids, and that content from a user never does (cases/tokenizers.md T5,
// T6); broken UTF-8 goes through as bytes (T17).
#include "support/tiny_vocab.h"
#include "tokenizer/byte_symbols.h"
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace lumi {
namespace {

using test::VocabFile;
using test::VocabSpec;
using Specials = Tokenizer::Specials;

struct Loaded {
    explicit Loaded(const VocabSpec & vocab)
        : spec(vocab), file(vocab), tokenizer(Tokenizer::load(file.gguf()).value()) {}
    const Tokenizer & operator*() const { return *tokenizer; }
    VocabSpec spec;
    VocabFile file;
    std::unique_ptr<Tokenizer> tokenizer;
};

bool is_structure(const Tokenizer & tokenizer, TokenId id) {
    const std::string_view text = tokenizer.text(id);
    return tokenizer.type(id) == TokenType::control || tokenizer.type(id) == TokenType::unknown ||
           text == "[multimodal]" || text == "<start_of_image>" || text.ends_with("think>") ||
           text.find("<tool_") == 0 || text.find("</tool_") == 0 ||
           (tokenizer.type(id) == TokenType::user_defined &&
            (text.starts_with("<|") || text.ends_with("|>")));
}

// The token of one byte, however the vocabulary writes it.
TokenId byte_token(const Tokenizer & tokenizer, uint8_t byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const TokenId id = tokenizer.find(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
    return id >= 0 ? id : tokenizer.find(byte_symbol(byte));
}

std::vector<std::string> structure_texts(const Tokenizer & tokenizer) {
    std::vector<std::string> texts;
    for (TokenId id = 0; id < tokenizer.n_tokens(); ++id) {
        if (is_structure(tokenizer, id)) {
            texts.emplace_back(tokenizer.text(id));
        }
    }
    return texts;
}

class SpecialText : public testing::TestWithParam<VocabSpec (*)()> {};

TEST_P(SpecialText, ParseTurnsEveryControlTextIntoItsId) {
    const Loaded loaded(GetParam()());
    for (const std::string & text : structure_texts(*loaded)) {
        EXPECT_EQ((*loaded).encode(text, Specials::parse),
                  std::vector<TokenId>{(*loaded).find(text)});
    }
}

TEST_P(SpecialText, PlainNeverGivesAControlId) {
    const Loaded loaded(GetParam()());
    for (const std::string & text : structure_texts(*loaded)) {
        for (const TokenId id : (*loaded).encode("say " + text + " twice", Specials::plain)) {
            EXPECT_NE((*loaded).type(id), TokenType::control) << text;
        }
    }
}

TEST_P(SpecialText, UntrustedNeverGivesStructureAndKeepsTheText) {
    const Loaded loaded(GetParam()());
    const std::vector<std::string> texts = structure_texts(*loaded);
    ASSERT_GE(texts.size(), 8U);
    std::mt19937 random(3);
    std::string all;
    for (int round = 0; round < 500; ++round) {
        std::string text;
        for (int part = 0; part < 6; ++part) {
            const std::string & one = texts[random() % texts.size()];
            // Halves too: a marker must not grow together from two of them.
            text += random() % 3 == 0 ? one.substr(0, random() % one.size()) : one;
            text += random() % 2 == 0 ? "" : random() % 2 == 0 ? " " : "\n";
        }
        const std::vector<TokenId> ids = (*loaded).encode(text, Specials::untrusted);
        for (const TokenId id : ids) {
            EXPECT_FALSE(is_structure(*loaded, id)) << text;
        }
        EXPECT_EQ((*loaded).decode(ids, true), text);
    }
}

TEST_P(SpecialText, AnyBytesComeBackUnchanged) {
    const Loaded loaded(GetParam()());
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        std::string text;
        for (size_t n = random() % 40; n > 0; --n) {
            text += static_cast<char>(random() % 256);
        }
        EXPECT_EQ((*loaded).decode((*loaded).encode(text, Specials::untrusted), true), text);
    }
    EXPECT_EQ((*loaded).encode("\xe2\x96", Specials::plain),
              (std::vector<TokenId>{byte_token(*loaded, 0xe2), byte_token(*loaded, 0x96)}));
}

TEST_P(SpecialText, BrokenLeadByteDoesNotSwallowTheTextAfterIt) {
    const Loaded loaded(GetParam()());
    std::vector<TokenId> wanted = {byte_token(*loaded, 0xf0)};
    (*loaded).encode("hello", Specials::plain, wanted);
    EXPECT_EQ((*loaded).encode("\xf0hello", Specials::plain), wanted);
}

TEST_P(SpecialText, ControlTokensShowOnlyWhenAsked) {
    const Loaded loaded(GetParam()());
    const TokenId id = (*loaded).end_tokens()[0];
    EXPECT_EQ((*loaded).piece(id, false), "");
    EXPECT_EQ((*loaded).piece(id, true), (*loaded).text(id));
    EXPECT_EQ((*loaded).piece(-1, true), "");
    EXPECT_EQ((*loaded).piece((*loaded).n_tokens(), true), "");
    EXPECT_EQ((*loaded).text(-7), "");
}

INSTANTIATE_TEST_SUITE_P(Families, SpecialText,
                         testing::Values(&test::tiny_gemma4, &test::tiny_gemma3, &test::tiny_qwen3),
                         [](const auto & family) { return family.param().architecture; });

TEST(SpecialTextQwen3, BrokenBytesSplitWordsAsSymbolsDo) {
    const Loaded loaded(test::tiny_qwen3());
    std::vector<TokenId> wanted;
    for (const char * word : {"hello", "\xff\xfe", "hello", " \xc3", "hello"}) {
        for (const TokenId id : (*loaded).encode(word, Specials::plain)) {
            wanted.push_back(id);
        }
    }
    EXPECT_EQ((*loaded).encode("hello\xff\xfehello \xc3hello", Specials::plain), wanted);
}

TEST(SpecialTextQwen3, HostileMergesCannotBuildAControlToken) {
    VocabSpec spec = test::tiny_qwen3();
    spec.add("<x>", 3);
    spec.add("<x", 1);
    spec.merges.insert(spec.merges.begin(), {"< x", "<x >"});
    const Loaded loaded(spec);
    EXPECT_EQ((*loaded).encode("<x>", Specials::untrusted),
              (std::vector<TokenId>{spec.id("<x"), spec.id(">")}));
    EXPECT_EQ((*loaded).encode("<x>", Specials::parse), std::vector<TokenId>{spec.id("<x>")});
}

TEST(SpecialTextGemma4, HostileMergesCannotBuildAControlToken) {
    VocabSpec spec = test::tiny_gemma4();
    for (const char * text : {"<|tu", "rn>", "<|"}) {
        spec.add(text, 1);
    }
    for (const char * character : {"<", "|", "t", "u", "r", "n", ">"}) {
        if (spec.id(character) < 0) {
            spec.add(character, 1);
        }
    }
    spec.add("<|t", 1);
    spec.add("rn", 1);
    spec.merges = {"< |", "<| t", "<|t u", "r n", "rn >", "<|tu rn>"};
    const Loaded loaded(spec);
    const std::vector<TokenId> ids = (*loaded).encode("<|turn>", Specials::untrusted);
    EXPECT_EQ(ids, (std::vector<TokenId>{spec.id("<|tu"), spec.id("rn>")}));
}

TEST(SpecialTextGemma3, HostilePiecesCannotBuildAControlToken) {
    VocabSpec spec = test::tiny_gemma3();
    for (const char * text : {"<", "x", ">", "<x"}) {
        if (spec.id(text) < 0) {
            spec.add(text, 1, -1.0F);
        }
    }
    spec.add("<x>", 3, 0.0F);
    spec.add("x>", 2, 0.0F);
    const Loaded loaded(spec);
    EXPECT_EQ((*loaded).encode("<x>", Specials::untrusted),
              (std::vector<TokenId>{spec.id("<x"), spec.id(">")}));
    EXPECT_EQ((*loaded).encode("<x>", Specials::parse), std::vector<TokenId>{spec.id("<x>")});
}

TEST(SpecialTextGemma3, NewlineRunsAndTagsOfTheVocabularyStayWholeForUsers) {
    const Loaded loaded(test::tiny_gemma3());
    EXPECT_EQ((*loaded).encode("<table>\n\n\n</table>", Specials::untrusted),
              (std::vector<TokenId>{(*loaded).find("<table>"), (*loaded).find("\n\n\n"),
                                    (*loaded).find("</table>")}));
}

TEST(SpecialTextGemma3, SpacePrefixIsAddedOnceAndTakenOffAgain) {
    VocabSpec spec = test::tiny_gemma3();
    spec.flags = {{"tokenizer.ggml.add_space_prefix", true}};
    const Loaded loaded(spec);
    const std::vector<TokenId> ids = (*loaded).encode("hello", Specials::plain);
    EXPECT_TRUE((*loaded).strips_first_space());
    EXPECT_EQ((*loaded).piece(ids[0], false)[0], ' ');
    EXPECT_EQ((*loaded).decode(ids, false), "hello");
}

}  // namespace
}  // namespace lumi
