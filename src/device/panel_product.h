// CPU products with a frozen, possibly quantised weight as a ggml custom operation: a panel of the
// weight is dequantised, multiplied and forgotten, so that both directions need no second copy.
#pragma once

#include <ggml.h>

namespace lumi {

// How the panels are multiplied.
enum class PanelKernel : unsigned char {
    f32,  // oneDNN's F32 GEMM: everywhere
    amx,  // BF16 parts of numbers on Intel's AMX tiles (amx_kernels.h): 1.5 to 3 times as fast
};
// The kernel for products with rows of n_in numbers: amx where the CPU has it and 32 divides n_in,
// else f32. A rule, not a measurement: the same numbers in every run on one machine.
PanelKernel panel_kernel(int64_t n_in);
const char * panel_kernel_text(PanelKernel kernel);  // for people

// y = W x: W [in, out] of any type ggml can dequantise, in plain (not repacked) host memory;
// x F32 [in, T] contiguous -> F32 [out, T].
ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x,
                            PanelKernel kernel);
// dx = W^T dy: dy F32 [out, T] contiguous -> F32 [in, T].
ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy,
                                       PanelKernel kernel);

// With the kernel of the rule.
ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x);
ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy);

}  // namespace lumi
