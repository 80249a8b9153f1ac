// One row of logits: what cross_entropy.h does to each. Internal to device/.
//
// The loops (logit_rows.inc) are compiled twice, for any CPU and for AVX-512; that is why they use
// nothing of the standard library.
#pragma once

#include <cstdint>

namespace lumi {

struct LogitSums {
    float largest;   // z, of all
    double exp_sum;  // of exp(z - largest)
    float label;     // z of the label
};

struct LogitRows {
    LogitSums (*sums)(const float * u, int64_t n, int64_t label, float cap);
    // u becomes (softmax(z) - one_hot(label)) * weight * dz/du.
    void (*gradient)(float * u, int64_t n, int64_t label, float cap, float largest,
                     float inverse_sum, float weight);
};

LogitRows logit_rows();         // the best for this CPU
LogitRows logit_rows_avx512();  // null functions where it was not compiled

}  // namespace lumi
