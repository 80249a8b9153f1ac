// CPU products with a frozen, possibly quantised weight through dequantised panels and oneDNN's
// F32 GEMM, as a ggml custom operation: no second copy of the weight, both directions.
#pragma once

#include <ggml.h>

namespace lumi {

// y = W x: W [in, out] of any type ggml can dequantise, in plain (not repacked) host memory;
// x F32 [in, T] contiguous -> F32 [out, T].
ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);
// dx = W^T dy: dy F32 [out, T] contiguous -> F32 [in, T].
ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy);

}  // namespace lumi
