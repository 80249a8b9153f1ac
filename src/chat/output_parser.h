// The output parsers of the families, behind ChatFormat::make_parser.
#pragma once

#include "chat/chat_format.h"

namespace lumi {

std::unique_ptr<OutputParser> make_gemma4_parser(bool in_thought);
std::unique_ptr<OutputParser> make_qwen3_parser(bool in_thought);
// Everything is content.
std::unique_ptr<OutputParser> make_plain_parser();

// Bytes at text's end that may be the beginning of marker.
size_t pending_bytes(std::string_view text, std::string_view marker);

}  // namespace lumi
