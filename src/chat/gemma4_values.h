// Gemma 4's own notation for tool declarations, arguments and results: JSON with bare keys and
// strings between <|"|> tokens. Written from JSON, read back into JSON.
#pragma once

#include "chat/prompt_builder.h"

#include <optional>

namespace lumi {

inline constexpr std::string_view kGemma4Quote = "<|\"|>";

// text between two quote tokens.
void write_gemma4_string(PromptBuilder & out, std::string_view text);
// declaration:name{description:...,parameters:{...}}
Status write_gemma4_declaration(PromptBuilder & out, const Tool & tool);
// call:name{key:value,...}, arguments a JSON object as text (empty counts as {}).
Status write_gemma4_call(PromptBuilder & out, const ToolCall & call);

// Reads what stands between <|tool_call> and <tool_call|>; nothing when it is not a whole call.
std::optional<ToolCall> read_gemma4_call(std::string_view text);

}  // namespace lumi
