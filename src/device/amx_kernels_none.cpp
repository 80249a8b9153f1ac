// For processors or compilers without AMX: nothing of amx_kernels.h is available, so nothing else
// of it is ever called.
#include "device/amx_kernels.h"

#include "device/dequantise.h"
#include "device/logit_rows.h"

namespace lumi {

bool amx_available() {
    return false;
}

TileScope::TileScope() : before_{} {}
TileScope::~TileScope() = default;

void pack_left_row(const float *, int64_t, int64_t, int, uint8_t *) {}
void pack_right_pair(const float *, const float *, int64_t, int64_t, int, uint8_t *, int64_t) {}
void left_to_right(uint8_t *, int64_t) {}
void multiply_strips(StripPair, StripPair, int64_t, int, float *, int64_t, bool, const Prefetch &) {
}
void store_transposed(const float *, int64_t, int64_t, int64_t, float *, int64_t, bool) {}

DequantiseRow avx512_dequantiser(ggml_type) {
    return nullptr;
}

LogitRows logit_rows_avx512() {
    return {nullptr, nullptr};
}

}  // namespace lumi
