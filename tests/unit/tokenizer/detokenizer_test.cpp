// The stream shows whole code points only and never a byte of a stop string, however the text is
// split (cases/tokenizers.md T13, cases/server.md S6, S8, S11, S13, S14).
#include "base/utf8.h"
#include "support/tiny_vocab.h"
#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

namespace lumi {
namespace {

class Stream : public testing::Test {
  protected:
    test::VocabFile file_{test::tiny_gemma4()};
    std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::load(file_.gguf()).value();

    StreamDecoder decoder(std::vector<std::string> stops = {}, bool with_special = false) const {
        return StreamDecoder(*tokenizer_, std::move(stops), with_special);
    }
    // One byte a token, whatever the vocabulary could do.
    std::vector<TokenId> byte_tokens(std::string_view text) const {
        std::vector<TokenId> ids;
        for (const char c : text) {
            constexpr char kHex[] = "0123456789ABCDEF";
            const auto byte = static_cast<unsigned char>(c);
            ids.push_back(
                tokenizer_->find(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">"));
        }
        return ids;
    }
};

TEST_F(Stream, EveryCodePointAppearsAsSoonAsItIsWhole) {
    StreamDecoder stream = decoder();
    std::string shown;
    std::vector<size_t> sizes;
    for (const TokenId id : byte_tokens("\xe6\x97\xa5\xe6\x9c\xac\xf0\x9f\xa6\x99")) {
        shown += stream.push(id);
        sizes.push_back(shown.size());
    }
    EXPECT_EQ(sizes, (std::vector<size_t>{0, 0, 3, 3, 3, 6, 6, 6, 6, 10}));
    EXPECT_EQ(stream.finish(), "");
}

TEST_F(Stream, CutCodePointBecomesOneReplacementAtTheEnd) {
    StreamDecoder stream = decoder();
    std::string shown;
    for (const TokenId id : byte_tokens("a\xf0\x9f\xa6")) {
        shown += stream.push(id);
    }
    EXPECT_EQ(shown, "a");
    EXPECT_EQ(stream.finish(), "\xef\xbf\xbd");
    EXPECT_EQ(stream.finish(), "");
}

TEST_F(Stream, InvalidBytesAreShownAsReplacements) {
    StreamDecoder stream = decoder();
    EXPECT_EQ(stream.push_bytes("a\xff\x80z"), "a\xef\xbf\xbd\xef\xbf\xbdz");
}

TEST_F(Stream, StopTextAcrossTokensIsNeverShown) {
    StreamDecoder stream = decoder({"O P Q"});
    std::string shown = stream.push_bytes("N O");
    EXPECT_EQ(shown, "N ");
    shown += stream.push_bytes(" P");
    shown += stream.push_bytes(" Q and more");
    EXPECT_EQ(shown, "N ");
    EXPECT_TRUE(stream.stopped());
    EXPECT_EQ(stream.stop_text(), "O P Q");
    EXPECT_EQ(stream.push_bytes("x") + stream.finish(), "");
}

TEST_F(Stream, HeldStopPrefixIsReleasedWhenItFailsAndAtTheEnd) {
    StreamDecoder stream = decoder({"<end>"});
    EXPECT_EQ(stream.push_bytes("a<en"), "a");
    EXPECT_EQ(stream.push_bytes("e<e"), "<ene");
    EXPECT_FALSE(stream.stopped());
    EXPECT_EQ(stream.finish(), "<e");
}

TEST_F(Stream, HiddenControlTokenMatchesAStopThatNamesIt) {
    const TokenId turn = tokenizer_->find("<turn|>");
    StreamDecoder stream = decoder({"<turn|>"});
    EXPECT_EQ(stream.push_bytes("Hi"), "Hi");
    EXPECT_EQ(stream.push(turn), "");
    EXPECT_TRUE(stream.stopped());
    EXPECT_EQ(stream.stop_text(), "<turn|>");
    StreamDecoder shown = decoder({"<turn|>"}, true);
    EXPECT_EQ(shown.push(turn), "");
    EXPECT_TRUE(shown.stopped());
    EXPECT_TRUE(tokenizer_->is_end(turn));
}

TEST_F(Stream, EmptyStopsAndUnknownIdsAreIgnored) {
    StreamDecoder stream = decoder({"", "x"});
    EXPECT_EQ(stream.push_bytes("abc"), "abc");
    EXPECT_EQ(stream.push(-1), "");
    EXPECT_EQ(stream.push(1 << 30), "");
    EXPECT_FALSE(stream.stopped());
}

// However a text is split, the stream shows the same, and without a stop that is the text.
TEST_F(Stream, SplitsDoNotChangeWhatIsShown) {
    const std::vector<std::string> parts = {"a",     "ab",       "O P", "Q",        " ",       "\n",
                                            "日本",  "🦙🚀", "<tu", "rn|>",     "\xff",    "é",
                                            "O P Q", "xyz",      "yzx", "\xf0\x9f", "\xe2\x96"};
    std::mt19937 random(11);
    const std::vector<std::string> stops = {"O P Q", "xyzxy", "zx", "本🦙", "<turn|>"};
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (size_t n = random() % 12; n > 0; --n) {
            text += parts[random() % parts.size()];
        }
        const bool stopping = round % 2 == 0;
        const auto run = [&](auto && next_size) {
            StreamDecoder stream = decoder(stopping ? stops : std::vector<std::string>{});
            std::string shown;
            for (size_t at = 0; at < text.size();) {
                const size_t size = std::min(next_size(), text.size() - at);
                shown += stream.push_bytes(std::string_view(text).substr(at, size));
                EXPECT_TRUE(utf8_valid(shown));
                at += size;
            }
            return std::pair(shown + stream.finish(), stream.stop_text());
        };
        const auto byte_by_byte = run([] { return size_t{1}; });
        const auto at_random = run([&] { return size_t{1} + random() % 5; });
        const auto at_once = run([&] { return text.size(); });
        EXPECT_EQ(byte_by_byte, at_random) << text;
        EXPECT_EQ(byte_by_byte, at_once) << text;
        if (!stopping && utf8_complete_prefix(text) == text.size()) {
            EXPECT_EQ(byte_by_byte.first, utf8_sanitized(text));
        }
        for (const std::string & stop : stops) {
            EXPECT_TRUE(!stopping || byte_by_byte.first.find(stop) == std::string::npos) << text;
        }
    }
}

TEST_F(Stream, TokensOfATextStreamToTheTextItself) {
    std::mt19937 random(13);
    const std::string source =
        "The quick brown fox 日本語 🦙🚀 Привет\n\n  hello <turn> é ";
    for (int round = 0; round < 300; ++round) {
        std::string text = source.substr(random() % source.size());
        text = utf8_sanitized(text) + source.substr(0, random() % 9);
        StreamDecoder stream = decoder({"never to be seen"});
        std::string shown;
        const auto ids = random() % 2 == 0 ? byte_tokens(text)
                                           : tokenizer_->encode(text, Tokenizer::Specials::plain);
        for (const TokenId id : ids) {
            shown += stream.push(id);
        }
        EXPECT_EQ(shown + stream.finish(), tokenizer_->decode(ids, false));
    }
}

TEST(StreamOfBytes, CodePointsOfSeveralTokensAppearWhole) {
    const test::VocabFile file(test::tiny_qwen3());
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(file.gguf()).value();
    const std::string text = "a 🦙\n\n日本 <think>é";
    StreamDecoder stream(*tokenizer, {}, true);
    std::string shown;
    for (const TokenId id : tokenizer->encode(text, Tokenizer::Specials::parse)) {
        shown += stream.push(id);
        EXPECT_TRUE(utf8_valid(shown)) << shown;
    }
    EXPECT_EQ(shown + stream.finish(), text);
}

}  // namespace
}  // namespace lumi
