// The output parsers of the families, behind ChatFormat::make_parser.
#pragma once

#include "chat/chat_format.h"

namespace lumi {

std::unique_ptr<OutputParser> make_gemma4_parser(bool in_thought);
// Everything is content.
std::unique_ptr<OutputParser> make_plain_parser();

}  // namespace lumi
