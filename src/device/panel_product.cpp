// The panel products as custom operations: which kernel, and what a thread of ggml's has to do.
#include "device/panel_product.h"

#include "device/amx_kernels.h"
#include "device/panel_parts.h"

namespace lumi {
namespace {

template <void (*kernel)(const PanelTask &)>
void run_part(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    kernel({dst->src[0], static_cast<const float *>(dst->src[1]->data),
            static_cast<float *>(dst->data), ggml_nrows(dst), ith, nth});
}

ggml_tensor * custom(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x, int64_t n_result,
                     ggml_custom_op_t part_function) {
    ggml_tensor * args[] = {weight, x};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_result, x->ne[1], x->ne[2], x->ne[3], args, 2,
                          part_function, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace

PanelKernel panel_kernel(int64_t n_in) {
    return amx_available() && n_in % kStep == 0 ? PanelKernel::amx : PanelKernel::f32;
}

const char * panel_kernel_text(PanelKernel kernel) {
    return kernel == PanelKernel::amx ? "AMX, BF16 parts" : "F32 (oneDNN)";
}

ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x,
                            PanelKernel kernel) {
    return custom(ctx, weight, x, weight->ne[1],
                  kernel == PanelKernel::amx ? run_part<forward_amx> : run_part<forward_f32>);
}

ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy,
                                       PanelKernel kernel) {
    return custom(ctx, weight, dy, weight->ne[0],
                  kernel == PanelKernel::amx ? run_part<transposed_amx> : run_part<transposed_f32>);
}

ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) {
    return panel_product(ctx, weight, x, panel_kernel(weight->ne[0]));
}

ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy) {
    return panel_product_transposed(ctx, weight, dy, panel_kernel(weight->ne[0]));
}

}  // namespace lumi
