// What `lumi inspect` tells about an adapter file, without its base.
#pragma once

#include "gguf/gguf_file.h"

#include <string>
#include <utility>
#include <vector>

namespace lumi {

// Name and value: rank, alpha, what it adapts, its base, and the record of its training. Empty for
// files that are no adapters.
std::vector<std::pair<std::string, std::string>> adapter_facts(const GgufFile & file);

}  // namespace lumi
