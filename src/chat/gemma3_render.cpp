// Gemma 3's conversations: no system turn (its text goes before the first user's), no tools, no
// thoughts, user and assistant in turn.
#include "chat/prompt_builder.h"
#include "chat/render.h"
#include "chat/trim.h"

namespace lumi {

Result<RenderedChat> render_gemma3(const Tokenizer & tokenizer, std::span<const Message> messages,
                                   const RenderOptions & options) {
    if (options.think) {
        return Error{ErrorKind::unsupported, "Gemma 3 has no thinking; turn the think option off"};
    }
    if (!options.tools.empty()) {
        return Error{ErrorKind::unsupported, "Gemma 3 has no format for tools; send none"};
    }
    PromptBuilder out(tokenizer);
    out.control(tokenizer.text(tokenizer.bos()));
    const bool has_system = messages[0].role == Role::system;
    const size_t first = has_system ? 1 : 0;
    if (has_system && messages.size() == 1) {
        return message_error(0, "Gemma 3 needs a user message after the system text");
    }
    for (size_t i = first; i < messages.size(); ++i) {
        const Message & message = messages[i];
        const Role expected = (i - first) % 2 == 0 ? Role::user : Role::assistant;
        if (message.role != expected || !message.tool_calls.empty()) {
            return message_error(i, "Gemma 3 conversations go user, assistant, user, ... after an "
                                    "optional system message, without tools");
        }
        const bool assistant = message.role == Role::assistant;
        out.control("<start_of_turn>");
        out.text(assistant ? "model\n" : "user\n");
        if (has_system && i == first) {
            out.text(messages[0].content);
            out.text("\n\n");
        }
        out.set_weight(assistant ? message.weight : 0.0F);
        out.text(trimmed(message.content));
        out.control("<end_of_turn>");
        out.set_weight(0.0F);
        out.text("\n");
    }
    if (options.add_generation_prompt) {
        out.control("<start_of_turn>");
        out.text("model\n");
    }
    return out.finish();
}

}  // namespace lumi
