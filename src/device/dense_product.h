// CPU products of dense F32 matrices as ggml custom operations, through oneDNN's GEMM: it reads
// either operand transposed and adds to its result, so that the narrow products of adapters need
// neither copies of the transposes nor passes that add (ggml's MUL_MAT needs both, and does a
// quarter of the speed on narrow matrices). All tensors are F32 with contiguous rows.
#pragma once

#include <ggml.h>

namespace lumi {

// a [k, m], x [k, T] -> [m, T].
ggml_tensor * dense_product(ggml_context * ctx, ggml_tensor * a, ggml_tensor * x);
// a [k, m], y [m, T] -> [k, T].
ggml_tensor * dense_product_transposed(ggml_context * ctx, ggml_tensor * a, ggml_tensor * y);
// The same added to sum, in place: nothing else may read sum. Returns sum's new value.
ggml_tensor * add_dense_product(ggml_context * ctx, ggml_tensor * sum, ggml_tensor * a,
                                ggml_tensor * x);
ggml_tensor * add_dense_product_transposed(ggml_context * ctx, ggml_tensor * sum, ggml_tensor * a,
                                           ggml_tensor * y);
// p [n, T], q [m, T] -> [n, m]: the sum over T of p's column times q's.
ggml_tensor * outer_product(ggml_context * ctx, ggml_tensor * p, ggml_tensor * q);

}  // namespace lumi
