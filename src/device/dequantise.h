// Rows of a weight as floats: vector code for the types that models ship in, ggml's for the rest.
#pragma once

#include <ggml.h>

namespace lumi {

using DequantiseRow = void (*)(const void * blocks, float * to, int64_t n);

// The fastest function there is for this type on this CPU; never null for a type ggml can
// dequantise, null for F32.
DequantiseRow row_dequantiser(ggml_type type);

// Vector code for AVX-512 (checked by the caller: amx_available()); null where ggml's serves.
DequantiseRow avx512_dequantiser(ggml_type type);

}  // namespace lumi
