// The known name closest to what was typed, for "did you mean".
#pragma once

#include <string>
#include <vector>

namespace lumi {

// By edit distance; empty when nothing is within a third of the length (at least 2 edits).
std::string nearest(const std::string & typed, const std::vector<std::string> & names);

}  // namespace lumi
