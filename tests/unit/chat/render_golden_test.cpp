// Byte-exact against the vendors' templates, and the tokens are those of the whole text
// (cases/inference.md M24, M28, M32, M35, M40; tests/golden/chat).
#include "chat/message_json.h"
#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lumi {
namespace {

using nlohmann::json;
using test::TinyChat;
using test::VocabSpec;

struct Case {
    std::string name;
    std::vector<Message> messages;
    std::vector<Tool> tools;
    RenderOptions options;
    std::string text;
};

std::vector<Case> read_cases(const std::string & name) {
    std::ifstream in(LUMI_SOURCE_DIR "/tests/golden/chat/" + name);
    std::vector<Case> cases;
    for (std::string line; std::getline(in, line);) {
        const json value = parse_json(line).value();
        Case one;
        one.name = value["name"];
        one.messages = messages_from_json(value["messages"]).value();
        if (value.contains("tools")) {
            one.tools = tools_from_json(value["tools"]).value();
        }
        one.options.think = value.value("think", false);
        one.options.add_generation_prompt = value.value("generate", true);
        one.text = value["text"];
        cases.push_back(std::move(one));
    }
    return cases;
}

void expect_golden(const ChatFormat & format, const Tokenizer & tokenizer,
                   const std::string & file_name, size_t n_cases) {
    std::vector<Case> cases = read_cases(file_name);
    EXPECT_EQ(cases.size(), n_cases);
    for (Case & one : cases) {
        one.options.tools = one.tools;
        const Result<RenderedChat> chat = format.render(one.messages, one.options);
        ASSERT_TRUE(chat.ok()) << one.name << ": " << chat.error().message;
        EXPECT_EQ(chat->text, one.text) << one.name;
        EXPECT_EQ(chat->tokens, tokenizer.encode(one.text, Tokenizer::Specials::parse)) << one.name;
        EXPECT_EQ(tokenizer.decode(chat->tokens, true), one.text) << one.name;
        EXPECT_EQ(chat->tokens.size(), chat->target_weight.size());
        const bool has_bos = format.family() != ChatFamily::qwen3;
        EXPECT_EQ(chat->tokens.at(0) == tokenizer.bos(), has_bos);
        EXPECT_EQ(std::count(chat->tokens.begin(), chat->tokens.end(), tokenizer.bos()),
                  has_bos ? 1 : 0);
        EXPECT_EQ(chat->opens_thought, one.text.ends_with("<|channel>thought\n")) << one.name;
        if (format.family() == ChatFamily::gemma4) {
            const TokenId think = tokenizer.find("<|think|>");
            EXPECT_EQ(std::count(chat->tokens.begin(), chat->tokens.end(), think),
                      one.options.think ? 1 : 0);
        }
    }
}

TEST(RenderGolden, Gemma4MatchesTheVendorsTemplate) {
    const TinyChat chat(test::tiny_gemma4());
    expect_golden(chat.format, *chat.tokenizer, "gemma4.jsonl", 37);
}

TEST(RenderGolden, LargeGemma4MatchesTheVendorsTemplate) {
    const TinyChat chat(test::tiny_gemma4(), test::Size::large);
    expect_golden(chat.format, *chat.tokenizer, "gemma4_large.jsonl", 37);
}

TEST(RenderGolden, Gemma3MatchesTheVendorsTemplate) {
    const TinyChat chat(test::tiny_gemma3());
    expect_golden(chat.format, *chat.tokenizer, "gemma3.jsonl", 8);
}

TEST(RenderGolden, Qwen3MatchesTheVendorsTemplate) {
    const TinyChat chat(test::tiny_qwen3());
    expect_golden(chat.format, *chat.tokenizer, "qwen3.jsonl", 37);
}

// Content is never structure, so here text and tokens part ways with the template on purpose.
TEST(RenderQwen3, ResultsThatAClientWrappedAreNoQuestionAndNoStructure) {
    const TinyChat chat(test::tiny_qwen3());
    std::vector<Message> messages = {
        test::message(Role::user, "Rome?"), test::message(Role::assistant, "x"),
        test::message(Role::user, "<tool_response>\n18\n</tool_response>")};
    messages[1].reasoning = "kept";
    RenderOptions options;
    options.think = true;
    const RenderedChat rendered = chat.render(messages, options);
    EXPECT_EQ(rendered.text, "<|im_start|>user\nRome?<|im_end|>\n"
                             "<|im_start|>assistant\n<think>\nkept\n</think>\n\nx<|im_end|>\n"
                             "<|im_start|>user\n<tool_response>\n18\n</tool_response><|im_end|>\n"
                             "<|im_start|>assistant\n");
    EXPECT_EQ(std::count(rendered.tokens.begin(), rendered.tokens.end(),
                         chat.tokenizer->find("<tool_response>")),
              0);
}

TEST(RenderQwen3, TheFilesTemplateDecidesWhetherItThinks) {
    const std::vector<Message> messages = {test::message(Role::user, "Hi"),
                                           test::message(Role::assistant, "Hello!")};
    const auto chat_with = [](const char * chat_template) {
        VocabSpec spec = test::tiny_qwen3();
        spec.texts.emplace_back("tokenizer.chat_template", chat_template);
        return TinyChat(spec);
    };
    const TinyChat hybrid = chat_with("<|im_start|> {% if enable_thinking is false %}");
    EXPECT_TRUE(hybrid.render(messages).text.ends_with("assistant\n<think>\n\n</think>\n\n"));
    const TinyChat thinker = chat_with("{{- '<|im_start|>assistant\\n<think>\\n' }}");
    const RenderedChat opened = thinker.render(messages);
    EXPECT_TRUE(opened.text.ends_with("assistant\n<think>\n"));
    EXPECT_TRUE(opened.opens_thought);
    const TinyChat instruct = chat_with("{{- '<|im_start|>assistant\\n' }}");
    EXPECT_EQ(instruct.render(messages).text, "<|im_start|>user\nHi<|im_end|>\n"
                                              "<|im_start|>assistant\nHello!<|im_end|>\n"
                                              "<|im_start|>assistant\n");
    RenderOptions options;
    options.think = true;
    const Result<RenderedChat> refused = instruct.format.render(messages, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("no thinking"), std::string::npos);
}

// Vocabularies of base models lack the marks; the text is the same.
TEST(RenderQwen3, MarksThatTheVocabularyLacksAreText) {
    VocabSpec spec = test::tiny_qwen3();
    for (const char * mark : {"<think>", "</think>", "<tool_call>", "</tool_call>"}) {
        spec.tokens[static_cast<size_t>(spec.id(mark))] += "gone";
    }
    const TinyChat chat(spec);
    const RenderedChat rendered = chat.render({test::message(Role::user, "Hi")});
    EXPECT_TRUE(rendered.text.ends_with("<think>\n\n</think>\n\n"));
    EXPECT_EQ(chat.tokenizer->decode(rendered.tokens, true), rendered.text);
}

// The real vocabularies merge more, so a border in the wrong place shows there.
void expect_golden_with(const std::filesystem::path & path, const std::string & cases,
                        size_t n_cases) {
    if (!std::filesystem::exists(path)) {
        GTEST_SKIP() << path << " is not here; the tiny vocabularies are tested all the same";
    }
    const GgufFile file = GgufFile::open(path.string()).value();
    const auto tokenizer = Tokenizer::load(file).value();
    const Result<ChatFormat> format = ChatFormat::detect(file, *tokenizer);
    ASSERT_TRUE(format.ok()) << format.error().message;
    expect_golden(*format, *tokenizer, cases, n_cases);
}

TEST(RenderGolden, TokensOfTheRealGemma4VocabularyAreThoseOfTheText) {
    const char * set = std::getenv("LUMI_VOCAB_DIR");
    const std::filesystem::path dir =
        set != nullptr ? set : LUMI_SOURCE_DIR "/../shared/data/vocab";
    expect_golden_with(dir / "ggml-vocab-gemma-4.gguf", "gemma4_large.jsonl", 37);
}

TEST(RenderGolden, TokensOfTheRealGemma3VocabularyAreThoseOfTheText) {
    const char * set = std::getenv("LUMI_GEMMA3_GGUF");
    expect_golden_with(set != nullptr ? set
                                      : LUMI_SOURCE_DIR "/.deps/models/gemma3-270m-q4_k_m.gguf",
                       "gemma3.jsonl", 8);
}

TEST(RenderGolden, PromptIsThePrefixOfTheTrainingConversation) {
    for (const auto & spec : {test::tiny_gemma4(), test::tiny_gemma3(), test::tiny_qwen3()}) {
        const TinyChat chat(spec);
        std::vector<Message> messages = {test::message(Role::system, "Be brief."),
                                         test::message(Role::user, "hello\nworld")};
        const RenderedChat prompt = chat.render(messages);
        messages.push_back(test::message(Role::assistant, "hello to you"));
        RenderOptions whole;
        whole.add_generation_prompt = false;
        const RenderedChat training = chat.render(messages, whole);
        ASSERT_LT(prompt.tokens.size(), training.tokens.size());
        EXPECT_TRUE(
            std::equal(prompt.tokens.begin(), prompt.tokens.end(), training.tokens.begin()));
    }
}

}  // namespace
}  // namespace lumi
