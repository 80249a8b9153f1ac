// No field of a conversation can put structure into the prompt (cases/tokenizers.md T5, T6): each
// special token occurs as often as with harmless text in the same field.
#include "unit/chat/tiny_chat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

namespace lumi {
namespace {

using test::message;
using test::TinyChat;

struct Conversation {
    std::vector<Message> messages;
    std::vector<Tool> tools;
};

// A field of a conversation, filled with the text given.
struct Field {
    const char * name;
    std::function<Conversation(const std::string &)> fill;
};

// text as the inside of a JSON string; special texts hold nothing else that needs escaping.
std::string json_inside(const std::string & text) {
    std::string out;
    for (const char c : text) {
        out += c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    }
    return out;
}

Conversation with_call(const ToolCall & call, const Message & result) {
    return {{message(Role::user, "x"), test::call_message({call}), result}, {}};
}

// Everything a client sends.
std::vector<Field> all_fields() {
    const auto tool = [](const std::string & name, const std::string & description,
                         const std::string & parameters) {
        return Conversation{{message(Role::user, "x")}, {{name, description, parameters}}};
    };
    return {
        {"system",
         [](const std::string & t) {
             return Conversation{{message(Role::system, t), message(Role::user, "x")}, {}};
         }},
        {"user",
         [](const std::string & t) {
             return Conversation{{message(Role::user, t)}, {}};
         }},
        {"assistant",
         [](const std::string & t) {
             return Conversation{{message(Role::user, "x"), message(Role::assistant, t)}, {}};
         }},
        {"reasoning",
         [](const std::string & t) {
             Message answer = message(Role::assistant, "y");
             answer.reasoning = t;
             return Conversation{{message(Role::user, "x"), answer}, {}};
         }},
        {"call name",
         [](const std::string & t) {
             return with_call({"1", t, "{}"}, test::result_message("1", "r"));
         }},
        {"argument name",
         [](const std::string & t) {
             return with_call({"1", "f", "{\"" + json_inside(t) + "\":1}"},
                              test::result_message("1", "r"));
         }},
        {"argument",
         [](const std::string & t) {
             return with_call({"1", "f", "{\"a\":{\"b\":[\"" + json_inside(t) + "\"]}}"},
                              test::result_message("1", "r"));
         }},
        {"result",
         [](const std::string & t) {
             return with_call({"1", "f", "{}"}, test::result_message("1", t));
         }},
        {"result name",
         [](const std::string & t) {
             Message result = test::result_message("", "r");
             result.name = t;
             return with_call({"1", "f", "{}"}, result);
         }},
        {"tool name", [tool](const std::string & t) { return tool(t, "d", "{}"); }},
        {"tool description", [tool](const std::string & t) { return tool("f", t, "{}"); }},
        {"parameter name",
         [tool](const std::string & t) {
             return tool("f", "d",
                         R"({"type":"object","properties":{")" + json_inside(t) +
                             R"(":{"type":"string"}},"required":["a"]})");
         }},
        {"parameter texts",
         [tool](const std::string & t) {
             const std::string in = json_inside(t);
             return tool("f", "d",
                         R"({"type":"object","properties":{"a":{"type":"string","description":")" +
                             in + R"(","enum":[")" + in +
                             R"("]},"b":{"type":"array","items":{"type":"x","default":")" + in +
                             R"("}}},"required":[")" + in + R"("]})");
         }},
    };
}

std::map<TokenId, size_t> structure_of(const TinyChat & chat, const Conversation & conversation) {
    RenderOptions options;
    options.tools = conversation.tools;
    const RenderedChat rendered = chat.render(conversation.messages, options);
    std::map<TokenId, size_t> counts;
    for (const TokenId id : rendered.tokens) {
        const TokenType type = chat.tokenizer->type(id);
        if (type == TokenType::control || type == TokenType::unknown ||
            (type == TokenType::user_defined && chat.tokenizer->text(id)[0] == '<')) {
            ++counts[id];
        }
    }
    return counts;
}

void expect_no_injection(const TinyChat & chat, const std::vector<Field> & fields) {
    size_t n_texts = 0;
    for (TokenId id = 0; id < chat.tokenizer->n_tokens(); ++id) {
        const TokenType type = chat.tokenizer->type(id);
        const std::string text(chat.tokenizer->text(id));
        if (text.starts_with("<table") || text.starts_with("</") ||
            (type != TokenType::control && (type != TokenType::user_defined || text[0] != '<'))) {
            continue;
        }
        ++n_texts;
        for (const Field & field : fields) {
            EXPECT_EQ(structure_of(chat, field.fill("a " + text + " b")),
                      structure_of(chat, field.fill("a b")))
                << field.name << " with " << text;
        }
    }
    EXPECT_GE(n_texts, 8U);
}

TEST(Injection, NoFieldOfGemma4ReachesStructure) {
    expect_no_injection(TinyChat(test::tiny_gemma4()), all_fields());
}

TEST(Injection, NoFieldOfGemma3ReachesStructure) {
    std::vector<Field> fields = all_fields();
    fields.resize(3);
    expect_no_injection(TinyChat(test::tiny_gemma3()), fields);
}

TEST(Injection, NoFieldOfQwen3ReachesStructure) {
    expect_no_injection(TinyChat(test::tiny_qwen3()), all_fields());
}

// Two halves of a marker, one in the content and one in template text, must not join either.
TEST(Injection, ContentCannotCompleteTemplateText) {
    const TinyChat chat(test::tiny_gemma4());
    const RenderedChat rendered =
        chat.render({message(Role::user, "<|turn"), message(Role::user, ">")});
    const TokenId turn = chat.tokenizer->find("<|turn>");
    EXPECT_EQ(std::count(rendered.tokens.begin(), rendered.tokens.end(), turn), 3);
}

}  // namespace
}  // namespace lumi
