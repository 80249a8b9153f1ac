// The loops of logit_rows.h for AVX-512: see amx_kernels.cpp for what that forbids.
#include "device/logit_rows.h"

#include "device/logit_rows.inc"

namespace lumi {

LogitRows logit_rows_avx512() {
    return {row_sums, row_gradient};
}

}  // namespace lumi
