// Uses an opened GGUF file in every way there is: the same walk for hostile-file tests and fuzzing.
#pragma once

#include "gguf/gguf_file.h"

namespace lumi {

// Calls every getter on every key and reads every tensor's bytes. A getter must fit the value's
// type or say what is wrong; extents must lie in the file. Empty when all of that held, else what
// did not.
std::string walk_gguf(const GgufFile & file);

}  // namespace lumi
