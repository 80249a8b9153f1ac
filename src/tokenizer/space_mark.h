// U+2581, which stands for a space inside vocabularies of the SentencePiece kind.
#pragma once

#include <string>
#include <string_view>

namespace lumi {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

// out = text with spaces as marks.
inline void mark_spaces(std::string_view text, std::string & out) {
    out.clear();
    for (const char c : text) {
        if (c == ' ') {
            out += kSpaceMark;
        } else {
            out += c;
        }
    }
}

// text with marks as spaces.
inline std::string unmark_spaces(std::string_view text) {
    std::string out;
    for (size_t mark = text.find(kSpaceMark); mark != std::string_view::npos;
         mark = text.find(kSpaceMark)) {
        out.append(text.substr(0, mark)).push_back(' ');
        text.remove_prefix(mark + kSpaceMark.size());
    }
    return out.append(text);
}

}  // namespace lumi
