// Gemma 4's conversations, byte for byte as the vendor's template of 2026-07-09 writes them: tool
// results inside the model's turn, thoughts kept only after the last user message.
#include "chat/gemma4_values.h"
#include "chat/render.h"
#include "chat/trim.h"

namespace lumi {

namespace {

// The assistant's text without thoughts it may still carry.
std::string without_thoughts(std::string_view text) {
    constexpr std::string_view kOpen = "<|channel>";
    constexpr std::string_view kClose = "<channel|>";
    std::string kept;
    while (true) {
        const size_t close = text.find(kClose);
        const std::string_view part = text.substr(0, close);
        kept += part.substr(0, part.find(kOpen));
        if (close == std::string_view::npos) {
            return std::string(trimmed(kept));
        }
        text.remove_prefix(close + kClose.size());
    }
}

class Gemma4Renderer {
  public:
    Gemma4Renderer(const Tokenizer & tokenizer, bool large, std::span<const Message> messages,
                   const RenderOptions & options)
        : out_(tokenizer), messages_(messages), options_(options), large_(large) {
        out_.control(tokenizer.text(tokenizer.bos()));
    }

    Result<RenderedChat> render() {
        LUMI_TRY(system_turn());
        const size_t first = starts_with_system() ? 1 : 0;
        for (size_t i = messages_.size(); i > first; --i) {
            if (messages_[i - 1].role == Role::user) {
                last_user_ = i - 1;
                has_user_ = true;
                break;
            }
        }
        for (size_t i = first; i < messages_.size(); ++i) {
            if (messages_[i].role != Role::tool) {
                LUMI_TRY(message(i));
            } else if (!answered_by_call(i)) {
                return message_error(i, "a tool's result, but no tool call stands before it");
            }
        }
        out_.set_weight(0.0F);
        const bool opens_thought = options_.add_generation_prompt && generation_prompt();
        RenderedChat chat = LUMI_TRY(out_.finish());
        chat.opens_thought = opens_thought;
        return chat;
    }

  private:
    enum class Last : unsigned char { text, call, response };

    bool starts_with_system() const {
        return !messages_.empty() && messages_[0].role == Role::system;
    }

    Status system_turn() {
        if (!options_.think && options_.tools.empty() && !starts_with_system()) {
            return {};
        }
        open_turn("system");
        if (options_.think) {
            out_.control("<|think|>");
            out_.text("\n");
        }
        if (starts_with_system()) {
            out_.text(trimmed(messages_[0].content));
        }
        for (const Tool & tool : options_.tools) {
            out_.control("<|tool>");
            LUMI_TRY(write_gemma4_declaration(out_, tool));
            out_.control("<tool|>");
        }
        close_turn();
        return {};
    }

    Status message(size_t i) {
        const Message & message = messages_[i];
        const bool assistant = message.role == Role::assistant;
        if (!(assistant && inside_model_turn_)) {
            open_turn(assistant ? "model" : message.role == Role::user ? "user" : "system");
        }
        out_.set_weight(assistant ? message.weight : 0.0F);
        last_ = Last::text;
        std::string content(trimmed(message.content));
        size_t n_responses = 0;
        if (assistant) {
            if (!message.reasoning.empty() && (!has_user_ || i > last_user_)) {
                thought(message.reasoning);
            }
            for (const ToolCall & call : message.tool_calls) {
                out_.control("<|tool_call>");
                if (Status written = write_gemma4_call(out_, call); !written.ok()) {
                    return message_error(i, written.error().message);
                }
                out_.control("<tool_call|>");
                last_ = Last::call;
            }
            n_responses = message.tool_calls.empty() ? 0 : responses(i);
            content = without_thoughts(message.content);
        }
        out_.text(content);
        end_message(i, n_responses, content.empty());
        inside_model_turn_ = assistant;
        return {};
    }

    // The results that follow the calls of message i, in the same turn; returns how many.
    size_t responses(size_t i) {
        size_t next = i + 1;
        for (; next < messages_.size() && messages_[next].role == Role::tool; ++next) {
            // The model itself opens the first response, to say that it waits for it.
            out_.control("<|tool_response>");
            out_.set_weight(0.0F);
            out_.text("response:" + tool_name(i, next - i - 1) + "{value:");
            write_gemma4_string(out_, messages_[next].content);
            out_.text("}");
            out_.control("<tool_response|>");
            last_ = Last::response;
        }
        out_.set_weight(messages_[i].weight);
        return next - i - 1;
    }

    // Closes the turn unless the model goes on in it.
    void end_message(size_t i, size_t n_responses, bool no_content) {
        const size_t next = i + 1 + n_responses;
        const bool is_last = next >= messages_.size();
        if (last_ == Last::call) {
            out_.control("<|tool_response>");
            return;
        }
        const bool assistant = messages_[i].role == Role::assistant;
        const bool continues = assistant && !is_last && messages_[next].role == Role::assistant;
        if (!continues && !(n_responses > 0 && no_content && is_last)) {
            close_turn();
        }
    }

    // Whose result it is: by id, by its own name, by its place among the calls.
    std::string tool_name(size_t caller, size_t place) const {
        const std::vector<ToolCall> & calls = messages_[caller].tool_calls;
        const Message & result = messages_[caller + 1 + place];
        for (const ToolCall & call : calls) {
            if (!call.id.empty() && call.id == result.tool_call_id) {
                return call.name;
            }
        }
        if (!result.name.empty()) {
            return result.name;
        }
        return place < calls.size() ? calls[place].name : "unknown";
    }

    bool answered_by_call(size_t i) const {
        while (i > 0 && messages_[i].role == Role::tool) {
            --i;
        }
        return messages_[i].role == Role::assistant && !messages_[i].tool_calls.empty();
    }

    void thought(std::string_view text) {
        out_.control("<|channel>");
        out_.text("thought\n");
        out_.text(text);
        out_.text("\n");
        out_.control("<channel|>");
    }

    // True when the prompt ends inside a thought.
    bool generation_prompt() {
        if (last_ == Last::text) {
            open_turn("model");
            if (large_ && !options_.think) {
                out_.control("<|channel>");
                out_.text("thought\n");
                out_.control("<channel|>");
            }
        } else if (last_ == Last::response && options_.think) {
            out_.control("<|channel>");
            out_.text("thought\n");
            return true;
        }
        return false;
    }

    void open_turn(const char * role) {
        out_.set_weight(0.0F);
        out_.control("<|turn>");
        out_.text(std::string(role) + "\n");
    }

    void close_turn() {
        out_.control("<turn|>");
        out_.set_weight(0.0F);
        out_.text("\n");
    }

    PromptBuilder out_;
    std::span<const Message> messages_;
    const RenderOptions & options_;
    bool large_;
    size_t last_user_ = 0;
    bool has_user_ = false;
    bool inside_model_turn_ = false;  // the last message that was not a tool's is the assistant's
    Last last_ = Last::text;
};

}  // namespace

Result<RenderedChat> render_gemma4(const Tokenizer & tokenizer, bool large,
                                   std::span<const Message> messages,
                                   const RenderOptions & options) {
    return Gemma4Renderer(tokenizer, large, messages, options).render();
}

}  // namespace lumi
