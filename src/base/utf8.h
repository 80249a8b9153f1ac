// UTF-8 by code point, for input that may be anything. Nothing here throws.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lumi {

// Bytes the lead byte announces: 1 to 4; 1 for a byte that cannot lead.
size_t utf8_lead_length(unsigned char lead);

// Length of the whole, well-formed code point that text starts with; 0 when there is none.
size_t utf8_code_point_length(std::string_view text);

// Length of the longest prefix that is valid UTF-8 and does not end inside a code point; an invalid
// byte counts as complete (it will never become valid).
size_t utf8_complete_prefix(std::string_view text);

bool utf8_valid(std::string_view text);

// text with each invalid byte replaced by U+FFFD.
std::string utf8_sanitized(std::string_view text);

// text in single quotes for a message: sanitized, control bytes escaped, cut after max_bytes.
std::string quoted(std::string_view text, size_t max_bytes = 80);

}  // namespace lumi
