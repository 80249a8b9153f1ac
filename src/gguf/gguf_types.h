// The format's numbers, shared by reader and writer: limits, value sizes and tensor sizes.
#pragma once

#include "gguf/gguf_file.h"

namespace lumi {

inline constexpr uint32_t kGgufDefaultAlignment = 32;
inline constexpr uint32_t kGgufMinAlignment = 8;
inline constexpr uint32_t kGgufMaxAlignment = 1024 * 1024;
inline constexpr uint64_t kGgufMaxKeys = 64 * 1024;
inline constexpr uint64_t kGgufMaxTensors = 64 * 1024;
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;
inline constexpr uint64_t kGgufMaxTensorNameBytes = 63;  // ggml keeps names in 64 bytes with a NUL

// Bytes of one value; 0 for strings, arrays and numbers that name no type.
uint64_t gguf_value_bytes(GgufType type);

// A type this ggml can describe; false for numbers out of range and types it has removed.
bool known_tensor_type(uint32_t type);

}  // namespace lumi
