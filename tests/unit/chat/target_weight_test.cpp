// Which tokens train: the assistant's own, the end of its turn included, and nothing else.
#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>

#include <map>

namespace lumi {
namespace {

using test::message;
using test::TinyChat;

// The text of the tokens of each weight but 0.
std::map<float, std::string> target_texts(const TinyChat & chat, const RenderedChat & rendered) {
    std::map<float, std::string> texts;
    for (size_t i = 0; i < rendered.tokens.size(); ++i) {
        if (rendered.target_weight[i] != 0.0F) {
            texts[rendered.target_weight[i]] += chat.tokenizer->piece(rendered.tokens[i], true);
        }
    }
    return texts;
}

const RenderOptions kWhole{.add_generation_prompt = false, .think = false, .tools = {}};

TEST(TargetWeight, OnlyTheAssistantsTokensAndItsEndOfTurnTrain) {
    const TinyChat gemma4(test::tiny_gemma4());
    const TinyChat gemma3(test::tiny_gemma3());
    std::vector<Message> messages = {
        message(Role::system, "sys"), message(Role::user, "one"), message(Role::assistant, " two "),
        message(Role::user, "three"), message(Role::assistant, "four\nfive")};
    messages[2].weight = 0.5F;
    const std::map<float, std::string> four = target_texts(gemma4, gemma4.render(messages, kWhole));
    EXPECT_EQ(four,
              (std::map<float, std::string>{{0.5F, "two<turn|>"}, {1.0F, "four\nfive<turn|>"}}));
    const std::map<float, std::string> three =
        target_texts(gemma3, gemma3.render(messages, kWhole));
    EXPECT_EQ(three, (std::map<float, std::string>{{0.5F, "two<end_of_turn>"},
                                                   {1.0F, "four\nfive<end_of_turn>"}}));
    // Qwen3's empty thought says that thinking is off: the prompt's, not the assistant's.
    const TinyChat qwen3(test::tiny_qwen3());
    EXPECT_EQ(
        target_texts(qwen3, qwen3.render(messages, kWhole)),
        (std::map<float, std::string>{{0.5F, " two <|im_end|>"}, {1.0F, "four\nfive<|im_end|>"}}));
}

TEST(TargetWeight, MessagesOfWeightZeroAndPromptsHaveNoTargets) {
    const TinyChat chat(test::tiny_gemma4());
    std::vector<Message> messages = {message(Role::user, "one"), message(Role::assistant, "two")};
    messages[1].weight = 0.0F;
    EXPECT_TRUE(target_texts(chat, chat.render(messages, kWhole)).empty());
    EXPECT_TRUE(target_texts(chat, chat.render({message(Role::user, "one")})).empty());
}

TEST(TargetWeight, ThoughtsTrainWhereTheyAreRendered) {
    const TinyChat chat(test::tiny_gemma4());
    std::vector<Message> messages = {message(Role::user, "a"), message(Role::assistant, "b"),
                                     message(Role::user, "c"), message(Role::assistant, "d")};
    messages[1].reasoning = "stripped";
    messages[3].reasoning = "kept";
    EXPECT_EQ(target_texts(chat, chat.render(messages, kWhole))[1.0F],
              "b<turn|><|channel>thought\nkept\n<channel|>d<turn|>");
    const TinyChat qwen3(test::tiny_qwen3());
    EXPECT_EQ(target_texts(qwen3, qwen3.render(messages, kWhole))[1.0F],
              "b<|im_end|><think>\nkept\n</think>\n\nd<|im_end|>");
}

TEST(TargetWeight, CallsTrainWithTheTokenThatWaitsForTheResultButNotTheResult) {
    const TinyChat chat(test::tiny_gemma4());
    const std::vector<Message> messages = {
        message(Role::user, "list"),
        test::call_message({{"1", "ls", R"({"a":1})"}, {"2", "ls", "{}"}}),
        test::result_message("1", "one"), test::result_message("2", "two"),
        message(Role::assistant, "done")};
    EXPECT_EQ(target_texts(chat, chat.render(messages, kWhole))[1.0F],
              "<|tool_call>call:ls{a:1}<tool_call|><|tool_call>call:ls{}<tool_call|>"
              "<|tool_response>done<turn|>");
    const TinyChat qwen3(test::tiny_qwen3());
    EXPECT_EQ(target_texts(qwen3, qwen3.render(messages, kWhole))[1.0F],
              "<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"a\":1}}\n</tool_call>\n"
              "<tool_call>\n{\"name\": \"ls\", \"arguments\": {}}\n</tool_call><|im_end|>"
              "done<|im_end|>");
}

}  // namespace
}  // namespace lumi
