// Well-formed UTF-8 after table 3-7 of the Unicode standard: the second byte's range depends on the
// lead, which is what shuts out overlong forms, surrogates and code points past U+10FFFF.
#include "base/utf8.h"

#include <algorithm>

namespace lumi {

namespace {

struct ByteRange {
    unsigned char low, high;
};

ByteRange second_byte_range(unsigned char lead) {
    switch (lead) {
    case 0xe0:
        return {0xa0, 0xbf};
    case 0xed:
        return {0x80, 0x9f};
    case 0xf0:
        return {0x90, 0xbf};
    case 0xf4:
        return {0x80, 0x8f};
    default:
        return {0x80, 0xbf};
    }
}

bool can_lead(unsigned char byte) {
    return byte < 0x80 || (byte >= 0xc2 && byte <= 0xf4);
}

bool is_continuation(unsigned char byte) {
    return (byte & 0xc0) == 0x80;
}

// How many of text's first bytes agree with one well-formed code point: its length when whole, less
// when text ends or goes wrong inside it, 0 when the first byte cannot lead.
size_t matching_bytes(std::string_view text) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    if (text.empty() || !can_lead(byte(0))) {
        return 0;
    }
    const size_t wanted = std::min(utf8_lead_length(byte(0)), text.size());
    size_t matched = 1;
    while (matched < wanted) {
        const ByteRange range = matched == 1 ? second_byte_range(byte(0)) : ByteRange{0x80, 0xbf};
        if (byte(matched) < range.low || byte(matched) > range.high) {
            break;
        }
        ++matched;
    }
    return matched;
}

}  // namespace

size_t utf8_code_point_length(std::string_view text) {
    const size_t matched = matching_bytes(text);
    return matched > 0 && matched == utf8_lead_length(static_cast<unsigned char>(text[0])) ? matched
                                                                                           : 0;
}

size_t utf8_lead_length(unsigned char lead) {
    if (lead < 0x80 || !can_lead(lead)) {
        return 1;
    }
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

size_t utf8_complete_prefix(std::string_view text) {
    // An unfinished code point is a lead and at most two continuations, so only the tail matters.
    for (size_t tail = 1; tail <= std::min<size_t>(3, text.size()); ++tail) {
        const size_t start = text.size() - tail;
        const unsigned char byte = static_cast<unsigned char>(text[start]);
        if (is_continuation(byte)) {
            continue;
        }
        const bool unfinished =
            matching_bytes(text.substr(start)) == tail && utf8_lead_length(byte) > tail;
        return unfinished ? start : text.size();
    }
    return text.size();
}

bool utf8_valid(std::string_view text) {
    while (!text.empty()) {
        const size_t length = utf8_code_point_length(text);
        if (length == 0) {
            return false;
        }
        text.remove_prefix(length);
    }
    return true;
}

std::string utf8_sanitized(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const size_t length = utf8_code_point_length(text);
        if (length == 0) {
            out += "\xef\xbf\xbd";
            text.remove_prefix(1);
        } else {
            out += text.substr(0, length);
            text.remove_prefix(length);
        }
    }
    return out;
}

std::string quoted(std::string_view text, size_t max_bytes) {
    constexpr char kHex[] = "0123456789abcdef";
    const bool cut = text.size() > max_bytes;
    if (cut) {
        text = text.substr(0, max_bytes);
        text = text.substr(0, utf8_complete_prefix(text));
    }
    std::string out = "'";
    for (const char c : utf8_sanitized(text)) {
        const unsigned char byte = static_cast<unsigned char>(c);
        if (byte == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte == 0x7f) {
            out += "\\x";
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
        } else {
            out += c;
        }
    }
    out += cut ? "...'" : "'";
    return out;
}

}  // namespace lumi
