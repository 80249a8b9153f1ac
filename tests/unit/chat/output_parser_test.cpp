// Thoughts, calls and answer come apart however the stream is cut, and what was rendered is read
// back (cases/inference.md M25, M26, M29, M31).
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

class Parser : public testing::Test {
  protected:
    const TinyChat chat_{test::tiny_gemma4()};

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

TEST_F(Parser, ThoughtAndAnswerComeApart) {
    const Output out = parse("<|channel>thought\nFirst.\n\nThen.\n<channel|>The answer.");
    EXPECT_EQ(out.reasoning, "First.\n\nThen.");
    EXPECT_EQ(out.content, "The answer.");
    EXPECT_FALSE(out.incomplete);
}

TEST_F(Parser, EmptyThoughtIsNone) {
    EXPECT_EQ(parse("<|channel>thought\n<channel|>Hi"), (Output{"Hi", "", {}, false}));
    EXPECT_EQ(parse("<|channel><channel|>Hi"), (Output{"Hi", "", {}, false}));
}

TEST_F(Parser, ThoughtThatThePromptOpenedIsContinued) {
    EXPECT_EQ(parse("So it is.\n<channel|>Yes", true), (Output{"Yes", "So it is.", {}, false}));
}

TEST_F(Parser, UnfinishedThoughtIsStillAThought) {
    EXPECT_EQ(parse("<|channel>thought\nhm <cha"), (Output{"", "hm <cha", {}, false}));
    EXPECT_EQ(parse("<|channel>tho"), Output{});
}

TEST_F(Parser, CallsBecomeJson) {
    const Output out =
        parse("Wait.<|tool_call>call:f{a:<|\"|>x, {y}<|\"|>,b:[1,-2.5,true,null,{c:{}}"
              "],d:[]}<tool_call|><|tool_call>call:g{}<tool_call|>");
    EXPECT_EQ(out.content, "Wait.");
    ASSERT_EQ(out.calls.size(), 2U);
    EXPECT_EQ(out.calls[0].first, "f");
    EXPECT_EQ(out.calls[0].second,
              json::parse(R"({"a":"x, {y}","b":[1,-2.5,true,null,{"c":{}}],"d":[]})"));
    EXPECT_EQ(out.calls[1], (std::pair<std::string, json>{"g", json::object()}));
}

TEST_F(Parser, MarkersInsideStringsAreText) {
    const Output out =
        parse("<|tool_call>call:f{a:<|\"|>}<tool_call|><|channel><|\"|>}<tool_call|>done");
    ASSERT_EQ(out.calls.size(), 1U);
    EXPECT_EQ(out.calls[0].second["a"], "}<tool_call|><|channel>");
    EXPECT_EQ(out.content, "done");
}

TEST_F(Parser, SlipsThatModelsMakeAreForgiven) {
    const Output out =
        parse("<|tool_call>call:f { \"a\" : \"q\\n\" , <|\"|>b<|\"|>: word two ,c:007 }"
              "<tool_call|>");
    ASSERT_EQ(out.calls.size(), 1U);
    EXPECT_EQ(out.calls[0].second, json::parse(R"({"a":"q\n","b":"word two","c":"007"})"));
}

TEST_F(Parser, WhatIsNoCallIsShownAsContent) {
    for (const char * inside :
         {"", "call:f", "f{}", "call:{}", "call:f{a}", "call:f{a:}", "call:f{a:1", "call:f{a:1}}",
          "call:f{a:1,}", "call:f{a:[1,2}", "call:f{a:\"x}"}) {
        const std::string text = std::string("<|tool_call>") + inside + "<tool_call|>";
        const Output out = parse("a" + text + "b");
        EXPECT_TRUE(out.calls.empty()) << inside;
        EXPECT_EQ(out.content, "a" + text + "b");
    }
}

TEST_F(Parser, DeepNestingIsContentAndNotACrash) {
    const std::string deep = "<|tool_call>call:f{a:" + std::string(100000, '[');
    EXPECT_TRUE(parse(deep, false, [&] { return deep.size(); }).incomplete);
    const std::string closed = deep + std::string(100000, ']') + "}<tool_call|>";
    EXPECT_EQ(parse(closed, false, [&] { return closed.size(); }).content, closed);
}

TEST_F(Parser, CallCutAtEveryByteIsReportedIncomplete) {
    const std::string call = "<|tool_call>call:f{a:<|\"|>x<|\"|>,b:[1,{c:null}]}<tool_call|>";
    for (size_t size = 0; size < call.size(); ++size) {
        const Output out = parse("ok " + call.substr(0, size));
        EXPECT_TRUE(out.calls.empty()) << size;
        EXPECT_EQ(out.content, "ok " + call.substr(0, size));
        EXPECT_EQ(out.incomplete, size >= std::string_view("<|tool_call>").size()) << size;
    }
    EXPECT_EQ(parse("ok " + call).calls.size(), 1U);
}

json random_value(std::mt19937 & random, int depth) {
    const std::vector<std::string> texts = {"",          " ",    "x",           "a,b",  "{c}",
                                            "[d]:\"e\"", "\n\n", "日本 🦙", "null", "1",
                                            "true",      "\\",   "<|turn>",     "it's"};
    switch (random() % (depth > 2 ? 6 : 8)) {
    case 0:
        return nullptr;
    case 1:
        return random() % 2 == 0;
    case 2:
        return static_cast<int64_t>(random()) - (int64_t{1} << 31);
    case 3:
        return static_cast<double>(random() % 1000) / 8.0;
    case 4:
    case 5:
        return texts[random() % texts.size()];
    case 6: {
        json list = json::array();
        for (size_t n = random() % 4; n > 0; --n) {
            list.push_back(random_value(random, depth + 1));
        }
        return list;
    }
    default: {
        json map = json::object();
        for (size_t n = random() % 4; n > 0; --n) {
            map["key_" + std::to_string(random() % 9)] = random_value(random, depth + 1);
        }
        return map;
    }
    }
}

// What the assistant said last, out of a rendered training conversation, tokens and all.
std::string last_answer(const TinyChat & chat, const std::vector<Message> & messages,
                        const RenderOptions & options) {
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

// Every combination of system text, thinking and tools, each cut into a stream in three ways.
TEST_F(Parser, RenderedAnswersAreReadBack) {
    std::mt19937 random(17);
    const std::vector<Tool> tools = {{"f", "does f", R"({"type":"object"})"}};
    const std::vector<std::string> texts = {"",       "x",           "Two words.",
                                            "a\n\nb", "日本 🦙", "{not:a call}"};
    for (int round = 0; round < 1600; ++round) {
        RenderOptions options;
        options.add_generation_prompt = false;
        options.think = (round & 1) != 0;
        options.tools = (round & 2) != 0 ? std::span<const Tool>(tools) : std::span<const Tool>();
        std::vector<Message> messages;
        if ((round & 4) != 0) {
            messages.push_back(message(Role::system, "sys"));
        }
        messages.push_back(message(Role::user, "x"));
        Message answer = message(Role::assistant, texts[random() % texts.size()]);
        answer.reasoning = options.think ? texts[random() % texts.size()] : "";
        Output wanted{answer.content, answer.reasoning, {}, false};
        for (size_t n = options.tools.empty() ? 0 : random() % 3; n > 0; --n) {
            json arguments = json::object();
            for (size_t k = random() % 4; k > 0; --k) {
                arguments["arg" + std::to_string(k)] = random_value(random, 0);
            }
            const std::string name = "tool_" + std::to_string(n);
            answer.tool_calls.push_back({"", name, arguments.dump()});
            wanted.calls.emplace_back(name, arguments);
        }
        messages.push_back(answer);
        EXPECT_EQ(parse(last_answer(chat_, messages, options)), wanted) << round;
    }
}

TEST_F(Parser, RandomMarkersNeverCrashAndSplitsDoNotMatter) {
    const std::vector<std::string> parts = {"<|channel>",
                                            "<channel|>",
                                            "<|tool_call>",
                                            "<tool_call|>",
                                            "<|\"|>",
                                            "call:f{",
                                            "}",
                                            "a:1",
                                            ",",
                                            "thought\n",
                                            "\n",
                                            "x",
                                            "<|",
                                            "[",
                                            "]",
                                            "\xff",
                                            ":"};
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

TEST(PlainParser, Gemma3ShowsEverythingAsContent) {
    const TinyChat chat(test::tiny_gemma3());
    const auto parser = chat.format.make_parser();
    Output out;
    add(out, parser->push("<|channel>thought\nx<channel|><think>y"));
    add(out, parser->finish());
    EXPECT_EQ(out.content, "<|channel>thought\nx<channel|><think>y");
}

}  // namespace
}  // namespace lumi
