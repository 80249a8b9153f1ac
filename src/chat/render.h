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

// An error about one message of a conversation.
Error message_error(size_t index, const std::string & what);

}  // namespace lumi
