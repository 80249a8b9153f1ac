// A format is chosen only when architecture, vocabulary and template agree; conversations that a
// family cannot express are refused by message (cases/inference.md M29, M34, M39, M40).
#include "chat/trim.h"
#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>

namespace lumi {
namespace {

using test::message;
using test::TinyChat;
using test::VocabFile;
using test::VocabSpec;

void expect_undetected(const VocabSpec & spec, const std::string & words) {
    const VocabFile file(spec);
    const auto tokenizer = Tokenizer::load(file.gguf()).value();
    const Result<ChatFormat> format = ChatFormat::detect(file.gguf(), *tokenizer);
    ASSERT_FALSE(format.ok()) << words;
    EXPECT_EQ(format.error().kind, ErrorKind::unsupported);
    EXPECT_NE(format.error().message.find(words), std::string::npos) << format.error().message;
    EXPECT_NE(format.error().message.find("Gemma 4, Gemma 3 and Qwen3"), std::string::npos);
}

TEST(Detect, FamilyFollowsTheArchitecture) {
    EXPECT_EQ(TinyChat(test::tiny_gemma4()).format.family(), ChatFamily::gemma4);
    EXPECT_EQ(TinyChat(test::tiny_gemma3()).format.family(), ChatFamily::gemma3);
    EXPECT_EQ(TinyChat(test::tiny_qwen3()).format.family(), ChatFamily::qwen3);
}

TEST(Detect, OtherArchitecturesAndForeignVocabulariesAreRefused) {
    VocabSpec spec = test::tiny_gemma4();
    spec.architecture = "qwen2";
    expect_undetected(spec, "'qwen2'");
    spec.architecture = "qwen3";
    expect_undetected(spec, "<|im_start|>");
    spec.architecture = "gemma3";
    expect_undetected(spec, "<start_of_turn>");
    spec = test::tiny_gemma3();
    spec.architecture = "gemma4";
    expect_undetected(spec, "<|turn>");
}

TEST(Detect, ForeignTemplateIsRefused) {
    VocabSpec spec = test::tiny_gemma4();
    spec.texts = {{"tokenizer.chat_template", "{{ '<|im_start|>' }}"}};
    expect_undetected(spec, "chat_template");
    spec.texts = {{"tokenizer.chat_template", "{{ '<|turn>' }}"}};
    EXPECT_EQ(TinyChat(spec).format.family(), ChatFamily::gemma4);
}

void expect_refused(const TinyChat & chat, const std::vector<Message> & messages,
                    const RenderOptions & options, const std::string & words) {
    const Result<RenderedChat> rendered = chat.format.render(messages, options);
    ASSERT_FALSE(rendered.ok()) << words;
    EXPECT_NE(rendered.error().message.find(words), std::string::npos) << rendered.error().message;
}

TEST(Refusals, ImpossibleConversationsOfGemma4AreNamedByMessage) {
    const TinyChat chat(test::tiny_gemma4());
    const Message user = message(Role::user, "x");
    expect_refused(chat, {}, {}, "no messages");
    expect_refused(chat, {user, test::result_message("1", "r")}, {}, "messages[1]");
    expect_refused(chat, {user, message(Role::assistant, "y"), test::result_message("1", "r")}, {},
                   "messages[2]");
    for (const char * arguments : {"[1]", "{\"a\":", "3", "\xff"}) {
        expect_refused(chat, {user, test::call_message({{"1", "f", arguments}})}, {},
                       "messages[1]: the arguments");
    }
    Message calling_user = user;
    calling_user.tool_calls = {{"1", "f", "{}"}};
    expect_refused(chat, {calling_user}, {}, "messages[0]");
    const std::vector<Tool> tools = {{"f", "d", "[]"}};
    RenderOptions options;
    options.tools = tools;
    expect_refused(chat, {user}, options, "the parameters of tool 'f'");
    const std::string deep = "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}";
    expect_refused(chat, {user, test::call_message({{"1", "f", deep}})}, {}, "messages[1]");
}

TEST(Refusals, ImpossibleConversationsOfQwen3AreNamedByMessage) {
    const TinyChat chat(test::tiny_qwen3());
    const Message user = message(Role::user, "x");
    for (const char * arguments : {"[1]", "{\"a\":", "3", "\xff"}) {
        expect_refused(chat, {user, test::call_message({{"1", "f", arguments}})}, {},
                       "messages[1]: the arguments");
    }
    const std::vector<Tool> tools = {{"f", "d", "[]"}};
    RenderOptions options;
    options.tools = tools;
    expect_refused(chat, {user}, options, "the parameters of tool 'f'");
    const std::string deep = "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}";
    expect_refused(chat, {user, test::call_message({{"1", "f", deep}})}, {}, "messages[1]");
}

TEST(Refusals, Gemma3SaysWhatItCannotDo) {
    const TinyChat chat(test::tiny_gemma3());
    const Message user = message(Role::user, "x");
    const std::vector<Tool> tools = {{"f", "d", "{}"}};
    RenderOptions options;
    options.tools = tools;
    expect_refused(chat, {user}, options, "tools");
    options = {};
    options.think = true;
    expect_refused(chat, {user}, options, "thinking");
    expect_refused(chat, {user, user}, {}, "messages[1]");
    expect_refused(chat, {message(Role::assistant, "x")}, {}, "messages[0]");
    expect_refused(chat, {message(Role::system, "x")}, {}, "messages[0]");
    expect_refused(chat, {user, test::call_message({{"1", "f", "{}"}})}, {}, "messages[1]");
}

TEST(Refusals, VocabularyWithoutAToolTokenIsNamed) {
    VocabSpec spec = test::tiny_gemma4();
    spec.tokens[static_cast<size_t>(spec.id("<|tool>"))] = "gone";
    spec.types[static_cast<size_t>(spec.id("gone"))] = 1;
    const TinyChat chat(spec);
    const std::vector<Tool> tools = {{"f", "d", "{}"}};
    RenderOptions options;
    options.tools = tools;
    expect_refused(chat, {message(Role::user, "x")}, options, "<|tool>");
    EXPECT_TRUE(chat.format.render(std::vector{message(Role::user, "x")}, {}).ok());
}

TEST(Trim, TakesUnicodeWhiteSpaceOffBothEndsOnly) {
    EXPECT_EQ(trimmed(" \t\n\v\f\r\x1c\xc2\x85\xc2\xa0\xe3\x80\x80 a b \xe2\x80\x89\n"), "a b");
    EXPECT_EQ(trimmed("\xe2\x80\x8b x"), "\xe2\x80\x8b x");  // zero width space is not white space
    EXPECT_EQ(trimmed(" \xe3\x80\x80 "), "");
    EXPECT_EQ(trimmed("\xe3\x80"), "\xe3\x80");
}

}  // namespace
}  // namespace lumi
