// Byte after byte narrows a range of the sorted texts, as in a search of a suffix array.
#include "tokenizer/special_matcher.h"

#include <algorithm>

namespace lumi {

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string_view, int32_t>> texts)
    : sorted_(std::move(texts)) {
    std::sort(sorted_.begin(), sorted_.end());
    for (size_t i = 0; i < sorted_.size(); ++i) {
        auto & range = by_first_byte_[static_cast<unsigned char>(sorted_[i].first[0])];
        if (range.second == 0) {
            range.first = static_cast<uint32_t>(i);
        }
        range.second = static_cast<uint32_t>(i + 1);
    }
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t from) const {
    for (size_t position = from; position < text.size(); ++position) {
        const Match match = match_at(text, position);
        if (match.size > 0) {
            return match;
        }
    }
    return {text.size(), 0, -1};
}

SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t position) const {
    Match best{position, 0, -1};
    const auto range = by_first_byte_[static_cast<unsigned char>(text[position])];
    auto low = sorted_.begin() + range.first;
    auto high = sorted_.begin() + range.second;
    for (size_t depth = 1; low != high; ++depth) {
        // Every text in [low, high) shares the first depth bytes; the exact one sorts first.
        if (low->first.size() == depth) {
            best.size = depth;
            best.id = low->second;
            ++low;
        }
        if (position + depth >= text.size()) {
            break;
        }
        const auto next = static_cast<unsigned char>(text[position + depth]);
        const auto byte_at_depth = [depth](const auto & entry) {
            return static_cast<unsigned char>(entry.first[depth]);
        };
        low = std::partition_point(low, high,
                                   [&](const auto & e) { return byte_at_depth(e) < next; });
        high = std::partition_point(low, high,
                                    [&](const auto & e) { return byte_at_depth(e) == next; });
    }
    return best;
}

}  // namespace lumi
