// The renderers of the families, behind ChatFormat::render.
#pragma once

#include "chat/chat_format.h"

namespace lumi {

// large: no per-layer embeddings; its prompts carry an empty thought when thinking is off.
Result<RenderedChat> render_gemma4(const Tokenizer & tokenizer, bool large,
                                   std::span<const Message> messages,
                                   const RenderOptions & options);
Result<RenderedChat> render_gemma3(const Tokenizer & tokenizer, std::span<const Message> messages,
                                   const RenderOptions & options);

// What the template of a Qwen3 file lets its model do.
enum class Thinking : unsigned char {
    optional,  // the first release: an empty thought in the prompt turns it off
    always,    // the prompt opens the thought
    never,
};
Result<RenderedChat> render_qwen3(const Tokenizer & tokenizer, Thinking thinking,
                                  std::span<const Message> messages, const RenderOptions & options);

// An error about one message of a conversation.
Error message_error(size_t index, const std::string & what);

}  // namespace lumi
