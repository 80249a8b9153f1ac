// Unicode's white space plus the four ASCII separators.
#include "chat/trim.h"

#include <array>

namespace lumi {

namespace {

// U+0085, U+00A0, U+1680, U+2000..200A, U+2028, U+2029, U+202F, U+205F, U+3000.
constexpr std::array<std::string_view, 19> kWideSpaces = {
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
    "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
    "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
    "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

bool is_ascii_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

// Bytes of white space that text starts (or ends) with: 0 for none.
size_t space_at(std::string_view text, bool at_end) {
    if (text.empty()) {
        return 0;
    }
    if (is_ascii_space(at_end ? text.back() : text.front())) {
        return 1;
    }
    for (const std::string_view space : kWideSpaces) {
        if (at_end ? text.ends_with(space) : text.starts_with(space)) {
            return space.size();
        }
    }
    return 0;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
    while (const size_t size = space_at(text, false)) {
        text.remove_prefix(size);
    }
    while (const size_t size = space_at(text, true)) {
        text.remove_suffix(size);
    }
    return text;
}

}  // namespace lumi
