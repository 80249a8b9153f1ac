// Finds the special texts of a vocabulary in a text: leftmost first, the longest at each place. No
// special text of a supported family overlaps another, so this equals searching longest first.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lumi {

class SpecialMatcher {
  public:
    struct Match {
        size_t position = 0;
        size_t size = 0;  // 0: nothing found, position is the text's end
        int32_t id = -1;
    };

    SpecialMatcher() = default;
    // The texts are not empty and outlive the matcher.
    explicit SpecialMatcher(std::vector<std::pair<std::string_view, int32_t>> texts);

    Match find(std::string_view text, size_t from) const;

  private:
    Match match_at(std::string_view text, size_t position) const;

    std::vector<std::pair<std::string_view, int32_t>> sorted_;
    std::array<std::pair<uint32_t, uint32_t>, 256> by_first_byte_{};  // ranges of sorted_
};

}  // namespace lumi
