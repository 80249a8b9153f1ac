// Qwen3's thoughts, calls and answer come apart however the stream is cut, and what was rendered is
// read back.
#include "tokenizer/detokenizer.h"
#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <random>

namespace lumi {
namespace {

using nlohmann::json;
using test::message;
using test::TinyChat;

struct Output {
    std::string content;
    std::string reasoning;
    std::vector<std::pair<std::string, json>> calls;
    bool incomplete = false;
    bool operator==(const Output &) const = default;
};

void add(Output & to, const OutputDelta & delta) {
    to.content += delta.content;
    to.reasoning += delta.reasoning;
    for (const ToolCall & call : delta.tool_calls) {
        to.calls.emplace_back(call.name, json::parse(call.arguments));
    }
    to.incomplete = to.incomplete || delta.incomplete_call;
}

class Qwen3Output : public testing::Test {
  protected:
    const TinyChat chat_{test::tiny_qwen3()};

    template <typename Size>
    Output parse(std::string_view text, bool in_thought, Size && next_size) const {
        const auto parser = chat_.format.make_parser(in_thought);
        Output out;
        while (!text.empty()) {
            const size_t size = std::min(next_size(), text.size());
            add(out, parser->push(text.substr(0, size)));
            text.remove_prefix(size);
        }
        add(out, parser->finish());
        return out;
    }

    // The same for whole text, single bytes and random pieces, or the test fails.
    Output parse(std::string_view text, bool in_thought = false) const {
        std::mt19937 random(1);
        const Output whole = parse(text, in_thought, [&] { return text.size(); });
        EXPECT_EQ(whole, parse(text, in_thought, [] { return size_t{1}; })) << text;
        EXPECT_EQ(whole, parse(text, in_thought, [&] { return size_t{1} + random() % 7; })) << text;
        return whole;
    }
};

TEST_F(Qwen3Output, ThoughtAndAnswerComeApart) {
    EXPECT_EQ(parse("<think>\nFirst.\n\nThen.\n</think>\n\nThe answer.\n"),
              (Output{"The answer.\n", "First.\n\nThen.", {}, false}));
    EXPECT_EQ(parse("<think>\n\n</think>\n\nHi"), (Output{"Hi", "", {}, false}));
    EXPECT_EQ(parse("So it is.\n</think>\n\nYes", true), (Output{"Yes", "So it is.", {}, false}));
}

TEST_F(Qwen3Output, UnfinishedThoughtIsStillAThought) {
    EXPECT_EQ(parse("<think>\nhm </thi"), (Output{"", "hm </thi", {}, false}));
    EXPECT_EQ(parse("<thin"), (Output{"<thin", "", {}, false}));
}

TEST_F(Qwen3Output, CallsComeOutWithoutTheTemplatesNewlines) {
    const Output out =
        parse("Wait.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, null]}}\n"
              "</tool_call>\n<tool_call>\n{\"name\": \"g\"}\n</tool_call>\n");
    EXPECT_EQ(out.content, "Wait.");
    ASSERT_EQ(out.calls.size(), 2U);
    EXPECT_EQ(out.calls[0], (std::pair<std::string, json>{"f", json::parse(R"({"a":[1,null]})")}));
    EXPECT_EQ(out.calls[1], (std::pair<std::string, json>{"g", json::object()}));
    EXPECT_EQ(parse("a\n\n<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"b\\\":2}\"}</tool_call>"),
              (Output{"a\n", "", {{"f", json::parse(R"({"b":2})")}}, false}));
}

// Clients send the call back, and then the prompt must be what the model wrote.
TEST_F(Qwen3Output, ArgumentsKeepTheirOrderAndSpacing) {
    const auto parser = chat_.format.make_parser();
    const OutputDelta delta = parser->push(
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"z\": 1, \"a\": {\"y\": 2, \"b\": []}}}\n"
        "</tool_call>");
    ASSERT_EQ(delta.tool_calls.size(), 1U);
    EXPECT_EQ(delta.tool_calls[0].arguments, "{\"z\": 1, \"a\": {\"y\": 2, \"b\": []}}");
}

TEST_F(Qwen3Output, MarkersInsideStringsAreText) {
    const Output out = parse("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
                             "\"\\\"</tool_call><think>\\\\\"}}\n</tool_call>\n\ndone");
    ASSERT_EQ(out.calls.size(), 1U);
    EXPECT_EQ(out.calls[0].second["a"], "\"</tool_call><think>\\");
    EXPECT_EQ(out.content, "done");
}

TEST_F(Qwen3Output, WhatIsNoCallIsShownAsContent) {
    for (const char * inside :
         {"", "f", "{}", "{\"name\": 1}", "{\"name\": \"\"}",
          "{\"name\": \"f\", \"arguments\": [1]}", "{\"name\": \"f\", \"arguments\": \"x\"}", "[1]",
          "{\"name\": \"f\"", "\xff"}) {
        const std::string text = std::string("\n<tool_call>") + inside + "</tool_call>";
        const Output out = parse("a" + text + "b");
        EXPECT_TRUE(out.calls.empty()) << inside;
        EXPECT_EQ(out.content, "a" + text + "b");
    }
}

TEST_F(Qwen3Output, DeepNestingIsContentAndNotACrash) {
    const std::string deep =
        "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":" + std::string(100000, '[') +
        std::string(100000, ']') + "}}</tool_call>";
    EXPECT_EQ(parse(deep, false, [&] { return deep.size(); }).content, deep);
}

TEST_F(Qwen3Output, CallCutAtEveryByteIsReportedIncomplete) {
    const std::string call =
        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x\"}}\n</tool_call>";
    for (size_t size = 0; size < call.size(); ++size) {
        const Output out = parse("ok\n" + call.substr(0, size));
        EXPECT_TRUE(out.calls.empty()) << size;
        EXPECT_EQ(out.content, "ok\n" + call.substr(0, size));
        EXPECT_EQ(out.incomplete, size >= std::string_view("<tool_call>").size()) << size;
    }
    EXPECT_EQ(parse("ok\n" + call).calls.size(), 1U);
}

// What the assistant said last, out of a rendered training conversation, tokens and all.
std::string last_answer(const TinyChat & chat, const std::vector<Message> & messages) {
    RenderOptions options;
    options.add_generation_prompt = false;
    const RenderedChat rendered = chat.render(messages, options);
    StreamDecoder stream(*chat.tokenizer, {}, true);
    std::string text;
    for (size_t i = 0; i < rendered.tokens.size(); ++i) {
        if (rendered.target_weight[i] > 0 && !chat.tokenizer->is_end(rendered.tokens[i])) {
            text += stream.push(rendered.tokens[i]);
        }
    }
    return text + stream.finish();
}

TEST_F(Qwen3Output, RenderedAnswersAreReadBack) {
    std::mt19937 random(17);
    const std::vector<std::string> texts = {
        "", "x", "Two words.", "a\n\nb", "日本 🦙", "{not:a call}", "end\n"};
    const std::vector<std::string> arguments = {
        "{}", R"({"a": 1, "b": [true, null, {"c": "</tool_call>"}]})", R"({"q":"\"\\\n日本"})"};
    for (int round = 0; round < 500; ++round) {
        Message answer = message(Role::assistant, texts[random() % texts.size()]);
        answer.reasoning = texts[random() % (texts.size() - 1)];
        Output wanted{answer.content, answer.reasoning, {}, false};
        for (size_t n = random() % 3; n > 0; --n) {
            const std::string name = "tool_" + std::to_string(n);
            answer.tool_calls.push_back({"", name, arguments[random() % arguments.size()]});
            wanted.calls.emplace_back(name, json::parse(answer.tool_calls.back().arguments));
        }
        EXPECT_EQ(parse(last_answer(chat_, {message(Role::user, "x"), answer})), wanted) << round;
    }
}

TEST_F(Qwen3Output, RandomMarkersNeverCrashAndSplitsDoNotMatter) {
    const std::vector<std::string> parts = {"<think>",
                                            "</think>",
                                            "<tool_call>",
                                            "</tool_call>",
                                            "\"",
                                            "\\",
                                            "{",
                                            "}",
                                            "\n",
                                            "\n\n",
                                            "x",
                                            "<",
                                            "\xff",
                                            ":",
                                            "{\"name\":\"f\"}"};
    std::mt19937 random(23);
    for (int round = 0; round < 5000; ++round) {
        std::string text;
        for (size_t n = random() % 14; n > 0; --n) {
            text += parts[random() % parts.size()];
        }
        const Output out = parse(text, round % 5 == 0);
        EXPECT_LE(out.content.size() + out.reasoning.size(), text.size());
    }
}

}  // namespace
}  // namespace lumi
