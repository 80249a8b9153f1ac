// Qwen3's conversations (ChatML), byte for byte as the vendor's template of the first release
// writes them: no default system text, nothing trimmed, thoughts kept only after the last user
// message.
#include "chat/message_json.h"
#include "chat/prompt_builder.h"
#include "chat/render.h"

#include "base/utf8.h"

#include <nlohmann/json.hpp>

namespace lumi {

namespace {

constexpr std::string_view kThoughtOpen = "<think>";
constexpr std::string_view kThoughtClose = "</think>";

std::string_view without_leading_newlines(std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

std::string_view without_trailing_newlines(std::string_view text) {
    return text.substr(0, text.find_last_not_of('\n') + 1);
}

// What the assistant thought and what it said. Clients that do not know of thoughts send both as
// content.
struct Answer {
    std::string_view thought;
    std::string_view content;
};

Answer answer_of(const Message & message) {
    const std::string_view content = message.content;
    const size_t close = content.rfind(kThoughtClose);
    if (!message.reasoning.empty() || close == std::string_view::npos) {
        return {without_leading_newlines(without_trailing_newlines(message.reasoning)), content};
    }
    std::string_view thought =
        without_trailing_newlines(content.substr(0, content.find(kThoughtClose)));
    if (const size_t open = thought.rfind(kThoughtOpen); open != std::string_view::npos) {
        thought.remove_prefix(open + kThoughtOpen.size());
    }
    return {without_leading_newlines(thought),
            without_leading_newlines(content.substr(close + kThoughtClose.size()))};
}

// A user's message, and not results of tools that a client wrapped itself.
bool is_question(const Message & message) {
    return message.role == Role::user && !(message.content.starts_with("<tool_response>") &&
                                           message.content.ends_with("</tool_response>"));
}

Status check_object(const std::string & text, const std::string & what) {
    const Result<nlohmann::json> value = parse_json(text.empty() ? "{}" : text);
    if (!value.ok()) {
        return value.error().within(what);
    }
    if (!value->is_object()) {
        return Error{ErrorKind::invalid_argument,
                     what + ": found " + value->type_name() + "; a JSON object is allowed"};
    }
    return {};
}

class Qwen3Renderer {
  public:
    Qwen3Renderer(const Tokenizer & tokenizer, Thinking thinking, std::span<const Message> messages,
                  const RenderOptions & options)
        : out_(tokenizer), messages_(messages), options_(options), thinking_(thinking) {}

    Result<RenderedChat> render() {
        LUMI_TRY(system_turn());
        last_question_ = messages_.size() - 1;
        for (size_t i = messages_.size(); i > 0; --i) {
            if (is_question(messages_[i - 1])) {
                last_question_ = i - 1;
                break;
            }
        }
        for (size_t i = messages_[0].role == Role::system ? 1 : 0; i < messages_.size(); ++i) {
            switch (messages_[i].role) {
            case Role::assistant:
                LUMI_TRY(assistant_turn(i));
                break;
            case Role::tool:
                result(i);
                break;
            case Role::system:
            case Role::user:
                open_turn(messages_[i].role == Role::user ? "user" : "system");
                out_.text(messages_[i].content);
                close_turn();
                break;
            }
        }
        const bool opens_thought = options_.add_generation_prompt && generation_prompt();
        RenderedChat chat = LUMI_TRY(out_.finish());
        chat.opens_thought = opens_thought;
        return chat;
    }

  private:
    Status system_turn() {
        const bool has_system = messages_[0].role == Role::system;
        if (!has_system && options_.tools.empty()) {
            return {};
        }
        open_turn("system");
        if (has_system) {
            out_.text(messages_[0].content);
        }
        if (!options_.tools.empty()) {
            out_.text(has_system ? "\n\n" : "");
            LUMI_TRY(declare_tools());
        }
        close_turn();
        return {};
    }

    Status declare_tools() {
        out_.text("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
                  "You are provided with function signatures within <tools></tools> XML tags:\n"
                  "<tools>");
        for (const Tool & tool : options_.tools) {
            LUMI_TRY(
                check_object(tool.parameters, "the parameters of tool " + quoted(tool.name, 64)));
            out_.text("\n{\"type\": \"function\", \"function\": {\"name\": " +
                      json_text(tool.name));
            if (!tool.description.empty()) {
                out_.text(", \"description\": " + json_text(tool.description));
            }
            if (!tool.parameters.empty()) {
                out_.text(", \"parameters\": " + tool.parameters);
            }
            out_.text("}}");
        }
        out_.text("\n</tools>\n\nFor each function call, return a json object with function name "
                  "and arguments within ");
        out_.mark("<tool_call>");
        out_.mark("</tool_call>");
        out_.text(" XML tags:\n");
        out_.mark("<tool_call>");
        out_.text("\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n");
        out_.mark("</tool_call>");
        return {};
    }

    Status assistant_turn(size_t i) {
        const Message & message = messages_[i];
        Answer answer = answer_of(message);
        open_turn("assistant");
        const bool is_last = i + 1 == messages_.size();
        if (i > last_question_ && thinking_ != Thinking::never &&
            (is_last || !answer.thought.empty())) {
            // An empty thought is the prompt's, not the assistant's: it says that thinking is off.
            out_.set_weight(answer.thought.empty() ? 0.0F : message.weight);
            thought(answer.thought);
            answer.content = without_leading_newlines(answer.content);
        }
        out_.set_weight(message.weight);
        out_.text(answer.content);
        for (size_t call = 0; call < message.tool_calls.size(); ++call) {
            out_.text(call > 0 || !answer.content.empty() ? "\n" : "");
            if (Status written = tool_call(message.tool_calls[call]); !written.ok()) {
                return message_error(i, written.error().message);
            }
        }
        close_turn();
        return {};
    }

    Status tool_call(const ToolCall & call) {
        LUMI_TRY(
            check_object(call.arguments, "the arguments of a call of " + quoted(call.name, 64)));
        out_.mark("<tool_call>");
        out_.text("\n{\"name\": \"" + call.name +
                  "\", \"arguments\": " + (call.arguments.empty() ? "{}" : call.arguments) + "}\n");
        out_.mark("</tool_call>");
        return {};
    }

    // Neighbouring results share one turn of the user.
    void result(size_t i) {
        if (i == 0 || messages_[i - 1].role != Role::tool) {
            out_.control("<|im_start|>");
            out_.text("user");
        }
        out_.text("\n");
        out_.mark("<tool_response>");
        out_.text("\n" + messages_[i].content + "\n");
        out_.mark("</tool_response>");
        if (i + 1 == messages_.size() || messages_[i + 1].role != Role::tool) {
            close_turn();
        }
    }

    // True when the prompt ends inside a thought.
    bool generation_prompt() {
        open_turn("assistant");
        if (thinking_ == Thinking::always) {
            out_.mark(kThoughtOpen);
            out_.text("\n");
            return true;
        }
        if (thinking_ == Thinking::optional && !options_.think) {
            thought("");
        }
        return false;
    }

    void thought(std::string_view text) {
        out_.mark(kThoughtOpen);
        out_.text("\n");
        out_.text(text);
        out_.text("\n");
        out_.mark(kThoughtClose);
        out_.text("\n\n");
    }

    void open_turn(const char * role) {
        out_.control("<|im_start|>");
        out_.text(std::string(role) + "\n");
    }

    void close_turn() {
        out_.control("<|im_end|>");
        out_.set_weight(0.0F);
        out_.text("\n");
    }

    PromptBuilder out_;
    std::span<const Message> messages_;
    const RenderOptions & options_;
    Thinking thinking_;
    size_t last_question_ = 0;
};

}  // namespace

Result<RenderedChat> render_qwen3(const Tokenizer & tokenizer, Thinking thinking,
                                  std::span<const Message> messages,
                                  const RenderOptions & options) {
    if (options.think && thinking == Thinking::never) {
        return Error{ErrorKind::unsupported,
                     "this model's template has no thinking; turn the think option off"};
    }
    return Qwen3Renderer(tokenizer, thinking, messages, options).render();
}

}  // namespace lumi
