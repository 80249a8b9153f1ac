// Looks for NaN and infinity in tensor data, before it reaches a file.
#pragma once

#include <ggml.h>

#include <cstdint>
#include <optional>
#include <span>

namespace lumi {

// Index of the first element that is not finite; none for types other than F32, F16, BF16 and F64.
std::optional<uint64_t> first_non_finite(ggml_type type, std::span<const std::byte> data);

}  // namespace lumi
