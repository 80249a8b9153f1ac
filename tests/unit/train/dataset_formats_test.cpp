// The shapes people's data has: each gives the very samples that OpenAI's messages give.
#include "train/dataset.h"

#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>

#include <set>

namespace lumi {

namespace {

using test::message;
using test::TinyChat;

class FormatsTest : public testing::Test {
  protected:
    Result<Dataset> parse(std::string_view text, bool assistant_only = true) {
        return parse_dataset(text, chat_.format, *chat_.tokenizer, {512, assistant_only});
    }
    Dataset parsed(std::string_view text) {
        auto dataset = parse(text);
        EXPECT_TRUE(dataset.ok()) << dataset.error().message;
        return dataset.ok() ? std::move(dataset).value() : Dataset{};
    }
    // Both give the same samples, weights included.
    void expect_same(std::string_view text, std::string_view messages) {
        const Dataset one = parsed(text);
        const Dataset other = parsed(messages);
        ASSERT_EQ(one.samples.size(), other.samples.size()) << text;
        for (size_t i = 0; i < one.samples.size(); ++i) {
            EXPECT_EQ(one.samples[i].tokens, other.samples[i].tokens) << text;
            EXPECT_EQ(one.samples[i].target_weight, other.samples[i].target_weight) << text;
        }
    }
    void expect_refused(std::string_view text, const std::string & words) {
        const auto dataset = parse(text);
        ASSERT_FALSE(dataset.ok()) << text;
        EXPECT_NE(dataset.error().message.find(words), std::string::npos)
            << dataset.error().message;
    }
    std::set<float> weights(const Dataset & dataset) {
        std::set<float> found;
        for (const Sample & sample : dataset.samples) {
            found.insert(sample.target_weight.begin(), sample.target_weight.end());
        }
        return found;
    }

    TinyChat chat_{test::tiny_gemma4()};
};

const char * const kHello =
    R"({"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]})";
const char * const kSystemHello =
    R"({"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hello"},)"
    R"({"role":"assistant","content":"hi"}]})";

TEST_F(FormatsTest, PromptAndCompletionAsTextsOrMessages) {
    expect_same(R"({"prompt":"hello","completion":"hi"})", kHello);
    expect_same(
        R"({"prompt":[{"role":"user","content":"hello"}],"completion":[{"role":"assistant","content":"hi"}]})",
        kHello);
    expect_same(R"({"prompt":[{"role":"user","content":"hello"}],"completion":"hi"})", kHello);
    // An answer inside the prompt is context.
    expect_same(
        R"({"prompt":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
        R"({"role":"user","content":"c"}],"completion":"d"})",
        R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":0},)"
        R"({"role":"user","content":"c"},{"role":"assistant","content":"d"}]})");
    expect_refused(R"({"prompt":[{"role":"x"}],"completion":"d"})",
                   "line 1: prompt: messages[0].role");
    expect_refused(R"({"prompt":"a","completion":7})", "line 1: completion is number");
}

TEST_F(FormatsTest, AlpacaWithItsOptionalParts) {
    EXPECT_EQ(parsed(R"({"instruction":"hello","output":"hi"})").format, "instruction JSONL");
    expect_same(R"({"instruction":"hello","input":"","output":"hi"})", kHello);
    expect_same(R"({"instruction":"hello","input":null,"output":"hi","system":"be kind"})",
                kSystemHello);
    expect_same(
        R"({"instruction":"add","input":"1 2","output":"3"})",
        R"({"messages":[{"role":"user","content":"add\n1 2"},{"role":"assistant","content":"3"}]})");
    expect_same(R"({"instruction":"c","output":"d","history":[["a","b"]]})",
                R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},)"
                R"({"role":"user","content":"c"},{"role":"assistant","content":"d"}]})");
    expect_refused(R"({"instruction":"c","output":["d"]})", "line 1: output is array");
    expect_refused(R"({"instruction":"c","output":"d","history":[["a"]]})", "line 1: history[0]");
    expect_refused(R"({"instruction":"c"})", "found the keys 'instruction'");
}

TEST_F(FormatsTest, ShareGptSpeakers) {
    EXPECT_EQ(
        parsed(R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]})")
            .format,
        "conversation JSONL");
    for (const char * user : {"human", "user"}) {
        for (const char * assistant : {"gpt", "assistant", "model", "bot"}) {
            expect_same(std::string(R"({"conversations":[{"from":")") + user +
                            R"(","value":"hello"},{"from":")" + assistant + R"(","value":"hi"}]})",
                        kHello);
        }
    }
    expect_same(
        R"({"system":"be kind","conversations":[{"from":"human","value":"hello"},{"from":"gpt","value":"hi"}]})",
        kSystemHello);
    expect_same(
        R"({"conversations":[{"from":"system","value":"be kind"},{"from":"human","value":"hello"},)"
        R"({"from":"gpt","value":"hi"}]})",
        kSystemHello);
    // Either key with either shape of turns.
    expect_same(
        R"({"conversations":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]})",
        kHello);
    expect_same(R"({"messages":[{"from":"human","value":"hello"},{"from":"gpt","value":"hi"}]})",
                kHello);
    expect_refused(R"({"conversations":[{"from":"wizard","value":"a"}]})",
                   "line 1: conversations[0].from: unknown speaker 'wizard'");
    expect_refused(R"({"conversations":[{"from":"human"}]})", "line 1: conversations[0]");
    expect_refused(R"({"conversations":[{"from":"human","value":3}]})",
                   "conversations[0].value is number");
    expect_refused(R"({"conversations":[]})", "line 1: messages: an empty list");
    expect_refused(R"({"conversations":"x"})", "line 1: messages: found string");
}

TEST_F(FormatsTest, ToolsAndCallsInBothShapes) {
    const std::string call =
        R"({"messages":[{"role":"user","content":"time?"},{"role":"assistant","tool_calls":)"
        R"([{"type":"function","function":{"name":"clock","arguments":"{\"zone\": \"utc\"}"}}]},)"
        R"({"role":"tool","name":"clock","content":"noon"},{"role":"assistant","content":"noon"}],)"
        R"("tools":[{"type":"function","function":{"name":"clock","description":"tells"}}]})";
    const std::string shared =
        R"({"conversations":[{"from":"human","value":"time?"},{"from":"function_call","value":)"
        R"("{\"name\": \"clock\", \"arguments\": {\"zone\": \"utc\"}}"},)"
        R"({"from":"observation","value":"noon"},{"from":"gpt","value":"noon"}],)"
        R"("tools":"[{\"name\": \"clock\", \"description\": \"tells\"}]"})";
    expect_same(shared, call);
    expect_refused(
        R"({"conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"nope"}]})",
        "line 1: conversations[1].value: not valid JSON");
    expect_refused(R"({"messages":[{"role":"user","content":"a"}],"tools":"["})",
                   "line 1: tools: not valid JSON");
}

TEST_F(FormatsTest, OneJsonListOfAnyShapeWorksAndNamesLines) {
    const std::string text = "[\n  {\"text\": \"a [{ \\\"b\"},\n  {\n    \"text\":\n\"c\"\n  },\n"
                             "  \"d\"\n]\n";
    const Dataset dataset = parsed(text);
    EXPECT_EQ(dataset.format, "text JSON list");
    ASSERT_EQ(dataset.samples.size(), 3U);
    EXPECT_EQ(dataset.samples[0].line, 2);
    EXPECT_EQ(dataset.samples[1].line, 3);
    EXPECT_EQ(dataset.samples[2].line, 7);
    expect_same(std::string("[") + kHello + "," + kHello + "]",
                std::string(kHello) + "\n" + kHello);
    EXPECT_EQ(parsed("\xEF\xBB\xBF[\r\n{\"text\":\"a\"}\r\n]\r\n").samples.size(), 1U);
    expect_refused("[{\"text\":\"a\"},\n{\"text\":\"b\"", "line 2: the JSON record that begins");
    expect_refused("[{\"text\":\"a\"},\n{\"text\":\"b\"}", "line 2: the list does not end");
    expect_refused("[{\"text\":\"a\"},\n\n", "line 3: the list does not end");
    expect_refused("[{\"text\":\"a\"}\n{\"text\":\"b\"}]", "line 2: found '{'; allowed is ,");
    expect_refused("[{\"text\":\"a\"},\n5]", "line 2: found '5'");
    expect_refused("[{\"text\":\"a\"}\n] x", "line 2: something follows the list");
    expect_refused("[{\"text\":\"a\"},\n{\"text\":}]", "line 2: not valid JSON");
}

TEST_F(FormatsTest, ObjectsOverSeveralLinesWork) {
    const Dataset dataset = parsed("{\n  \"text\": \"a\"\n}\n{\n  \"text\": \"b\"\n}\n");
    EXPECT_EQ(dataset.format, "text JSON");
    ASSERT_EQ(dataset.samples.size(), 2U);
    EXPECT_EQ(dataset.samples[1].line, 4);
}

TEST_F(FormatsTest, AWeightOfTheWholeRecordReachesEveryTarget) {
    const std::string turns = R"("messages":[{"role":"user","content":"q"},)"
                              R"({"role":"assistant","content":"a","weight":0.5}])";
    EXPECT_EQ(weights(parsed("{" + turns + R"(,"weight":-0.5})")), (std::set<float>{-0.25F, 0.0F}));
    EXPECT_EQ(weights(parsed("{" + turns + R"(,"reward":3})")), (std::set<float>{0.0F, 1.5F}));
    EXPECT_EQ(weights(parsed(R"({"text":"a b","weight":-1})")), (std::set<float>{-1.0F, 0.0F}));
    const auto all = parse(R"({"prompt":"q","completion":"a","weight":2})", false);
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(weights(*all), (std::set<float>{0.0F, 2.0F}));
    // Weight 0: counted as nothing to learn.
    EXPECT_EQ(parsed(std::string(kHello) + "\n{\"text\":\"x\",\"weight\":0}").skipped_samples, 1);
}

TEST_F(FormatsTest, WeightsOutOfBoundsAreRefused) {
    for (const char * weight : {"-1.01", "101", "1e300", "\"1\"", "[]"}) {
        expect_refused(std::string(R"({"text":"a","weight":)") + weight + "}", "line 1: weight");
    }
    expect_refused(R"({"text":"a","weight":1e999})", "line 1: JSON with a number that is too large");
    expect_refused(R"({"text":"a","weight":NaN})", "line 1: not valid JSON");
    expect_refused(R"({"text":"a","weight":1,"reward":1})", "found weight and reward");
    expect_refused(R"({"messages":[{"role":"assistant","content":"a","weight":50}],"weight":-1})",
                   "messages[0].weight times weight is out of range");
}

}  // namespace

}  // namespace lumi
