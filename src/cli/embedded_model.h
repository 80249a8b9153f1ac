// The small model that ships inside the program: the bytes of models/lumi-small.gguf.
#pragma once

#include <cstddef>
#include <span>

namespace lumi {

std::span<const std::byte> embedded_model();

}  // namespace lumi
