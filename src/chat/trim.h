// White space off both ends, by the set that the vendors' templates use (Python's str.strip).
#pragma once

#include <string_view>

namespace lumi {

std::string_view trimmed(std::string_view text);

}  // namespace lumi
