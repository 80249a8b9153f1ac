// Training data from text: every format, every way to break it, and what the labels hold.
#include "train/dataset.h"

#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace lumi {

namespace {

using test::message;
using test::TinyChat;

const char * const kHello =
    R"({"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi there"}]})";

class DatasetTest : public testing::Test {
  protected:
    Result<Dataset> parse(std::string_view text, int max_tokens = 512, bool assistant_only = true) {
        return parse_dataset(text, chat_.format, *chat_.tokenizer, {max_tokens, assistant_only});
    }
    Dataset parsed(std::string_view text, int max_tokens = 512) {
        auto dataset = parse(text, max_tokens);
        EXPECT_TRUE(dataset.ok()) << dataset.error().message;
        return dataset.ok() ? std::move(dataset).value() : Dataset{};
    }
    void expect_refused(std::string_view text, const std::string & words) {
        const auto dataset = parse(text);
        ASSERT_FALSE(dataset.ok());
        EXPECT_EQ(dataset.error().kind, ErrorKind::invalid_argument);
        EXPECT_NE(dataset.error().message.find(words), std::string::npos)
            << dataset.error().message;
    }
    // The text of tokens that are targets, or of all.
    std::string text_of(const Sample & sample, bool targets_only) {
        std::string text;
        for (size_t i = 0; i < sample.tokens.size(); ++i) {
            if (!targets_only || sample.target_weight[i] != 0.0F) {
                text += chat_.tokenizer->piece(sample.tokens[i], true);
            }
        }
        return text;
    }
    long n_bos(const Sample & sample) {
        return std::count(sample.tokens.begin(), sample.tokens.end(), chat_.tokenizer->bos());
    }

    TinyChat chat_{test::tiny_gemma4()};
};

// cases/training.md L23, L24.
TEST_F(DatasetTest, ChatLabelsAreTheAnswerWithItsEndAndThePromptIsTheServers) {
    const Dataset dataset = parsed(kHello);
    ASSERT_EQ(dataset.samples.size(), 1U);
    EXPECT_EQ(dataset.format, "chat JSONL");
    const Sample & sample = dataset.samples[0];
    EXPECT_EQ(text_of(sample, true), "hi there<turn|>");
    EXPECT_EQ(sample.line, 1);
    EXPECT_EQ(n_bos(sample), 1);
    EXPECT_EQ(sample.tokens[0], chat_.tokenizer->bos());
    const std::vector<TokenId> prompt = chat_.render({message(Role::user, "hello")}).tokens;
    ASSERT_GT(sample.tokens.size(), prompt.size());
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), sample.tokens.begin()));
}

TEST_F(DatasetTest, EveryAnswerEndsOnceInTheLabels) {
    std::string line = R"({"messages":[)";
    for (int i = 0; i < 5; ++i) {
        line += std::string(i > 0 ? "," : "") +
                R"({"role":"user","content":"q"},{"role":"assistant","content":"a"})";
    }
    const Dataset dataset = parsed(line + "]}");
    EXPECT_EQ(text_of(dataset.samples[0], true), "a<turn|>a<turn|>a<turn|>a<turn|>a<turn|>");
}

TEST_F(DatasetTest, PromptAndCompletionAreOneExchange) {
    const Dataset dataset = parsed(R"({"prompt":"hello","completion":"hi there"})");
    EXPECT_EQ(dataset.format, "prompt JSONL");
    EXPECT_EQ(dataset.samples[0].tokens, parsed(kHello).samples[0].tokens);
    EXPECT_EQ(dataset.samples[0].target_weight, parsed(kHello).samples[0].target_weight);
}

TEST_F(DatasetTest, TextsTrainOnEveryTokenButBos) {
    const Dataset dataset = parsed("{\"text\":\"one two\"}\n{\"text\":\"three\"}");
    EXPECT_EQ(dataset.format, "text JSONL");
    ASSERT_EQ(dataset.samples.size(), 2U);
    EXPECT_EQ(text_of(dataset.samples[0], true), "one two");
    EXPECT_EQ(dataset.samples[1].line, 2);
    EXPECT_EQ(n_bos(dataset.samples[1]), 1);
}

TEST_F(DatasetTest, KindsOfLinesMayMix) {
    EXPECT_EQ(parsed(std::string(kHello) + "\n{\"text\":\"x\"}").format, "mixed JSONL");
}

TEST_F(DatasetTest, AllTokensTrainWhenAskedTo) {
    const auto dataset = parse(kHello, 512, false);
    ASSERT_TRUE(dataset.ok());
    const Sample & sample = dataset->samples[0];
    EXPECT_EQ(sample.target_weight[0], 0.0F);
    EXPECT_EQ(sample.n_targets(), static_cast<int>(sample.tokens.size()) - 1);
}

TEST_F(DatasetTest, MessageWeightsArrive) {
    const Dataset dataset = parsed(
        R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"no","weight":0},)"
        R"({"role":"user","content":"r"},{"role":"assistant","content":"yes","weight":0.25}]})");
    EXPECT_EQ(text_of(dataset.samples[0], true), "yes<turn|>");
    const auto & weights = dataset.samples[0].target_weight;
    EXPECT_EQ(*std::max_element(weights.begin(), weights.end()), 0.25F);
}

TEST_F(DatasetTest, LineEndsBomAndBlankLinesDoNotMatter) {
    const Dataset plain = parsed(std::string(kHello) + "\n" + kHello);
    const Dataset dressed =
        parsed("\xEF\xBB\xBF\r\n" + std::string(kHello) + "\r\n\r\n  \r\n" + kHello + "\r\n");
    ASSERT_EQ(dressed.samples.size(), 2U);
    EXPECT_EQ(dressed.samples[1].tokens, plain.samples[1].tokens);
    EXPECT_EQ(dressed.samples[0].line, 2);
    EXPECT_EQ(dressed.samples[1].line, 5);
    EXPECT_EQ(parsed("one\r\ntwo").samples[0].tokens, parsed("one\ntwo").samples[0].tokens);
}

TEST_F(DatasetTest, EmojiSurvive) {
    EXPECT_EQ(text_of(parsed("smile \xF0\x9F\x98\x80!").samples[0], true),
              "smile \xF0\x9F\x98\x80!");
}

TEST_F(DatasetTest, ControlTextInContentStaysText) {
    const Sample sample = parsed(R"({"text":"a <turn|> b <bos>"})").samples[0];
    EXPECT_EQ(n_bos(sample), 1);
    EXPECT_EQ(
        std::count(sample.tokens.begin(), sample.tokens.end(), chat_.tokenizer->find("<turn|>")),
        0);
}

TEST_F(DatasetTest, ErrorsNameTheLine) {
    std::string six;
    for (int i = 0; i < 6; ++i) {
        six += std::string(kHello) + "\n";
    }
    expect_refused(six + "{\"messages\": [", "line 7: not valid JSON");
    expect_refused(six + "[1, 2]", "line 7: found array");
    expect_refused(six + "{\"message\": []}", "line 7: found the keys 'message'");
    expect_refused(six + "{\"prompt\": \"x\"}", "line 7: found the keys 'prompt'");
    expect_refused(six + "{\"text\": 5}", "line 7: text is number");
    expect_refused(six + R"({"messages":[{"role":"wizard","content":"x"}]})",
                   "line 7: messages[0].role");
    expect_refused(six + "{\"text\": \"\xFF\"}", "line 7: not valid JSON");
    expect_refused(six + "{\"text\": \"a\", \"text\": \"b\"}",
                   "line 7: an object has the key 'text' twice");
    expect_refused(six + "{\"text\": " + std::string(100000, '['), "line 7: JSON nested deeper");
    expect_refused(six + std::string("{\"text\": \"a\0b\"}", 15), "line 7: not valid JSON");
    expect_refused(six + R"({"messages":[{"role":"assistant","content":" \n"}]})",
                   "line 7: messages[0]: the assistant says nothing");
    expect_refused(six + R"({"prompt":"x","completion":""})",
                   "line 7: messages[1]: the assistant says nothing");
}

TEST_F(DatasetTest, SeveralWrongLinesAreToldAtOnceUpToFive) {
    const std::string text = std::string(kHello) + "\n{]\n" + kHello + "\n{\"text\":1}\n";
    const auto two = parse(text);
    ASSERT_FALSE(two.ok());
    EXPECT_NE(two.error().message.find("line 2: not valid JSON"), std::string::npos);
    EXPECT_NE(two.error().message.find("\nline 4: text is number"), std::string::npos);
    std::string many = "{}\n";
    for (int i = 0; i < 9; ++i) {
        many += "{}\n";
    }
    const auto five = parse(many);
    ASSERT_FALSE(five.ok());
    EXPECT_NE(five.error().message.find("line 5: "), std::string::npos);
    EXPECT_EQ(five.error().message.find("line 6: "), std::string::npos);
    EXPECT_NE(five.error().message.find("stopped reading"), std::string::npos);
}

TEST_F(DatasetTest, NothingUsableIsAnErrorThatSaysWhatWasFound) {
    expect_refused("", "is empty");
    expect_refused(" \r\n\n ", "is empty");
    expect_refused(R"({"messages":[{"role":"user","content":"alone"}]})", "1 samples without");
    expect_refused("\xFF\xFEh\0i\0", "UTF-16");
    expect_refused("[ ]\n", "empty JSON list");
    expect_refused("one\ntwo \xFF\n", "line 2: not valid UTF-8");
    expect_refused(std::string_view("one\ntwo\nh\0i\0", 12), "line 3: found a zero byte");
}

TEST_F(DatasetTest, SamplesWithoutTargetsAreSkippedAndCounted) {
    const Dataset dataset =
        parsed(std::string(kHello) + "\n" + R"({"messages":[{"role":"user","content":"alone"}]})" +
               "\n{\"text\":\"\"}");
    EXPECT_EQ(dataset.samples.size(), 1U);
    EXPECT_EQ(dataset.skipped_samples, 2);
}

TEST_F(DatasetTest, AWindowBelowSixteenTokensIsRefused) {
    EXPECT_FALSE(parse("some text", 15).ok());
    EXPECT_TRUE(parse("some text", 16).ok());
}

TEST_F(DatasetTest, AMegabyteLineIsCutIntoWindows) {
    std::string text;
    while (text.size() < 1000000) {
        text += "word ";
    }
    const Dataset dataset = parsed("{\"text\":\"" + text + "\"}", 256);
    EXPECT_EQ(dataset.split_samples, 1);
    for (const Sample & sample : dataset.samples) {
        EXPECT_LE(sample.tokens.size(), 256U);
        EXPECT_EQ(n_bos(sample), 1);
    }
    EXPECT_EQ(dataset.n_targets(),
              chat_.tokenizer->encode(text, Tokenizer::Specials::untrusted).size());
}

// A corpus shorter than the window is one sample; a longer one loses and repeats no token.
TEST_F(DatasetTest, PlainTextIsBosAndWindows) {
    const Dataset little = parsed("just a few words");
    ASSERT_EQ(little.samples.size(), 1U);
    EXPECT_EQ(little.format, "plain text");
    EXPECT_EQ(text_of(little.samples[0], true), "just a few words");

    std::string text;
    for (int i = 0; i < 200; ++i) {
        text += "word " + std::to_string(i) + "\n";
    }
    const Dataset dataset = parsed(text, 64);
    std::string joined;
    for (const Sample & sample : dataset.samples) {
        EXPECT_EQ(sample.tokens[0], chat_.tokenizer->bos());
        EXPECT_EQ(n_bos(sample), 1);
        joined += text_of(sample, true);
    }
    EXPECT_GT(dataset.samples.size(), 5U);
    EXPECT_EQ(joined, text);
    EXPECT_EQ(dataset.split_samples, 0);
}

// Each target is trained once, with context before it, and windows end where answers end.
TEST_F(DatasetTest, LongChatsAreCutAtTurnsWithContext) {
    std::string line = R"({"messages":[)";
    std::string answers;
    for (int i = 0; i < 40; ++i) {
        const std::string answer = "answer " + std::to_string(i);
        line += std::string(i > 0 ? "," : "") + R"({"role":"user","content":"question"},)" +
                R"({"role":"assistant","content":")" + answer + "\"}";
        answers += answer + "<turn|>";
    }
    const Dataset dataset = parsed(line + "]}", 128);
    EXPECT_EQ(dataset.split_samples, 1);
    ASSERT_GT(dataset.samples.size(), 3U);
    std::string trained;
    for (size_t i = 0; i < dataset.samples.size(); ++i) {
        const Sample & sample = dataset.samples[i];
        EXPECT_LE(sample.tokens.size(), 128U);
        EXPECT_EQ(n_bos(sample), 1);
        trained += text_of(sample, true);
        EXPECT_TRUE(text_of(sample, true).ends_with("<turn|>")) << i;
        const auto first = std::find_if(sample.target_weight.begin(), sample.target_weight.end(),
                                        [](float w) { return w != 0.0F; });
        if (i > 0) {
            EXPECT_GT(first - sample.target_weight.begin(), 128 / 4) << i;
        }
    }
    EXPECT_EQ(trained, answers);
}

TEST_F(DatasetTest, ChatsGivenDirectlyGiveTheSameSamples) {
    const std::vector<std::vector<Message>> chats = {
        {message(Role::user, "hello"), message(Role::assistant, "hi there")}};
    const auto dataset = dataset_from_chats(chats, chat_.format, {});
    ASSERT_TRUE(dataset.ok());
    EXPECT_EQ(dataset->samples[0].tokens, parsed(kHello).samples[0].tokens);
    EXPECT_FALSE(dataset_from_chats({}, chat_.format, {}).ok());
}

Dataset numbered(int n) {
    Dataset dataset;
    for (int i = 0; i < n; ++i) {
        dataset.samples.push_back({{1, 2}, {0.0F, 1.0F}, i});
    }
    return dataset;
}

std::set<int> lines(const Dataset & dataset) {
    std::set<int> out;
    for (const Sample & sample : dataset.samples) {
        out.insert(sample.line);
    }
    return out;
}

// cases/training.md L29.
TEST(SplitValidation, TakesTheShareButNeverEverythingNorAFewFacts) {
    const std::pair<std::pair<int, double>, size_t> cases[] = {
        {{0, 0.5}, 0},   {{1, 0.5}, 0}, {{2, 0.05}, 0},   {{2, 1.0}, 1},   {{9, 0.05}, 0},
        {{11, 0.05}, 1}, {{2, 0.5}, 1}, {{100, 0.05}, 5}, {{100, 0.0}, 0}, {{100, 7.0}, 99}};
    for (const auto & [input, expected] : cases) {
        Dataset dataset = numbered(input.first);
        const Dataset validation = split_validation(dataset, input.second, 1);
        EXPECT_EQ(validation.samples.size(), expected) << input.first << " " << input.second;
        EXPECT_EQ(dataset.samples.size() + expected, static_cast<size_t>(input.first));
        std::set<int> both = lines(dataset);
        both.merge(lines(validation));
        EXPECT_EQ(both.size(), static_cast<size_t>(input.first));
    }
}

// The windows of one conversation overlap: they must not lie on both sides.
TEST_F(DatasetTest, ALongRecordGoesToOneSideWhole) {
    std::string text;
    for (int i = 0; i < 20; ++i) {
        std::string words;
        for (int k = 0; k < 20 * (i % 4) + 1; ++k) {
            words += "word " + std::to_string(i) + " ";
        }
        text += "{\"text\":\"" + words + "\"}\n";
    }
    Dataset dataset = parsed(text, 64);
    ASSERT_GT(dataset.samples.size(), 40U);
    EXPECT_EQ(dataset.n_records(), 20U);
    const size_t n_samples = dataset.samples.size();
    const Dataset validation = split_validation(dataset, 0.25, 3);
    EXPECT_EQ(dataset.n_records(), 15U);
    EXPECT_EQ(validation.n_records(), 5U);
    EXPECT_EQ(dataset.samples.size() + validation.samples.size(), n_samples);
    EXPECT_GT(validation.samples.size(), 5U);
    std::set<int> both = lines(dataset);
    EXPECT_EQ(both.size(), 15U);
    both.merge(lines(validation));
    EXPECT_EQ(both.size(), 20U);
}

TEST_F(DatasetTest, SamplesInBothSetsAreCounted) {
    const Dataset train = parsed("{\"text\":\"one two\"}\n{\"text\":\"three\"}\n");
    EXPECT_EQ(count_shared(train, parsed("{\"text\":\"three\"}\n{\"text\":\"thre\"}\n")), 1U);
    EXPECT_EQ(count_shared(train, {}), 0U);
    EXPECT_EQ(count_shared(train, train), 2U);
}

TEST(SplitValidation, SeedChoosesWhich) {
    const auto chosen = [](uint64_t seed) {
        Dataset dataset = numbered(100);
        return lines(split_validation(dataset, 0.1, seed));
    };
    EXPECT_EQ(chosen(1), chosen(1));
    EXPECT_NE(chosen(1), chosen(2));
}

}  // namespace

}  // namespace lumi
