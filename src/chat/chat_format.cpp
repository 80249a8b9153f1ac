// Which format a file's conversations have: by its architecture, its vocabulary and its template,
// all of which must agree (cases/inference.md M29, M34, M39).
#include "chat/chat_format.h"

#include "base/utf8.h"
#include "chat/output_parser.h"
#include "chat/render.h"

#include <algorithm>

namespace lumi {

namespace {

struct FamilyMarks {
    ChatFamily family;
    std::string_view architecture;
    std::string_view turn_open;
    std::string_view turn_close;
    bool begins_with_bos;
};

constexpr FamilyMarks kFamilies[] = {
    {ChatFamily::gemma4, "gemma4", "<|turn>", "<turn|>", true},
    {ChatFamily::gemma3, "gemma3", "<start_of_turn>", "<end_of_turn>", true},
    {ChatFamily::qwen3, "qwen3", "<|im_start|>", "<|im_end|>", false},
};

Error unsupported(const std::string & what) {
    return {ErrorKind::unsupported,
            what + "; lumi renders conversations of instruction-tuned Gemma 4, Gemma 3 and Qwen3, "
                   "and any model takes raw prompts"};
}

// Only the switch of the first release lets a conversation choose; the later ones fixed it, and the
// thinking one ends its prompt in an opened thought. \\n stands in the template's source as such.
Thinking thinking_of(std::string_view chat_template) {
    const auto uses = [&](std::string_view text) {
        return chat_template.find(text) != std::string_view::npos;
    };
    if (chat_template.empty() || uses("enable_thinking")) {
        return Thinking::optional;
    }
    return uses("<|im_start|>assistant\\n<think>\\n'") ? Thinking::always : Thinking::never;
}

}  // namespace

Result<ChatFormat> ChatFormat::detect(const GgufFile & file, const Tokenizer & tokenizer) {
    const std::string_view architecture = LUMI_TRY(file.get_string("general.architecture"));
    const auto marks =
        std::find_if(std::begin(kFamilies), std::end(kFamilies),
                     [&](const FamilyMarks & one) { return one.architecture == architecture; });
    if (marks == std::end(kFamilies)) {
        return unsupported("general.architecture is " + quoted(architecture, 64));
    }
    for (const std::string_view mark : {marks->turn_open, marks->turn_close}) {
        const TokenId id = tokenizer.find(mark);
        if (id < 0 || tokenizer.type(id) != TokenType::control) {
            return unsupported("the vocabulary has no control token " + std::string(mark));
        }
    }
    if (marks->begins_with_bos && tokenizer.bos() < 0) {
        return unsupported("the vocabulary has no beginning-of-sequence token");
    }
    constexpr const char * kTemplate = "tokenizer.chat_template";
    std::string_view text;
    if (file.has(kTemplate)) {
        text = LUMI_TRY(file.get_string(kTemplate));
        if (text.find(marks->turn_open) == std::string_view::npos) {
            return unsupported(std::string(kTemplate) + " does not use " +
                               std::string(marks->turn_open) + ", so it is another format");
        }
    }
    bool large = false;
    if (marks->family == ChatFamily::gemma4) {
        constexpr const char * kPerLayer = "gemma4.embedding_length_per_layer_input";
        large = !file.has(kPerLayer) || LUMI_TRY(file.get_u32(kPerLayer)) == 0;
    }
    return ChatFormat(marks->family, tokenizer, large, thinking_of(text));
}

Result<RenderedChat> ChatFormat::render(std::span<const Message> messages,
                                        const RenderOptions & options) const {
    if (messages.empty()) {
        return Error{ErrorKind::invalid_argument, "the conversation has no messages"};
    }
    for (size_t i = 0; i < messages.size(); ++i) {
        if (messages[i].role != Role::assistant && !messages[i].tool_calls.empty()) {
            return message_error(i, "only the assistant calls tools");
        }
    }
    switch (family_) {
    case ChatFamily::gemma4:
        return render_gemma4(*tokenizer_, large_, messages, options);
    case ChatFamily::gemma3:
        return render_gemma3(*tokenizer_, messages, options);
    case ChatFamily::qwen3:
        break;
    }
    return render_qwen3(*tokenizer_, thinking_, messages, options);
}

std::unique_ptr<OutputParser> ChatFormat::make_parser(bool in_thought) const {
    switch (family_) {
    case ChatFamily::gemma4:
        return make_gemma4_parser(in_thought);
    case ChatFamily::gemma3:
        return make_plain_parser();
    case ChatFamily::qwen3:
        break;
    }
    return make_qwen3_parser(in_thought);
}

Error message_error(size_t index, const std::string & what) {
    return {ErrorKind::invalid_argument, "messages[" + std::to_string(index) + "]: " + what};
}

}  // namespace lumi
