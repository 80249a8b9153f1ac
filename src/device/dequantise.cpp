// Which function dequantises which type.
#include "device/dequantise.h"

#include "device/amx_kernels.h"

namespace lumi {

DequantiseRow row_dequantiser(ggml_type type) {
    if (type == GGML_TYPE_F32) {
        return nullptr;
    }
    const DequantiseRow vectorised = amx_available() ? avx512_dequantiser(type) : nullptr;
    return vectorised != nullptr ? vectorised : ggml_get_type_traits(type)->to_float;
}

}  // namespace lumi
