// Sharing of work and memory among the threads of a product.
#include "device/panel_parts.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>

// Of the OpenMP runtime oneDNN itself is linked to. Declared here because another compiler's omp.h
// would bring another runtime with settings of its own.
extern "C" void omp_set_num_threads(int n);

namespace lumi {
namespace {

struct FreeDeleter {
    void operator()(std::byte * p) const { std::free(p); }
};

}  // namespace

Range part(int64_t count, int64_t unit, int64_t i, int64_t n) {
    const int64_t units = (count + unit - 1) / unit;
    return {std::min(count, units * i / n * unit), std::min(count, units * (i + 1) / n * unit)};
}

Grid choose_grid(int64_t units, int64_t tokens, int64_t n_threads) {
    Grid best;
    int64_t best_cost = std::numeric_limits<int64_t>::max();
    for (int64_t a = std::min(units, n_threads); a >= 1; --a) {
        const int64_t b = std::min(tokens, n_threads / a);
        const int64_t cost = ((units + a - 1) / a) * ((tokens + b - 1) / b);
        if (cost < best_cost) {
            best = {a, b};
            best_cost = cost;
        }
    }
    return best;
}

std::byte * thread_scratch(size_t n_bytes) {
    thread_local std::unique_ptr<std::byte, FreeDeleter> memory;
    thread_local size_t capacity = 0;
    if (capacity < n_bytes) {
        const size_t rounded = (n_bytes + 63) / 64 * 64;
        memory.reset(static_cast<std::byte *>(std::aligned_alloc(64, rounded)));
        capacity = memory ? rounded : 0;
    }
    return memory.get();
}

void use_one_thread_of_onednn() {
    thread_local bool single = false;
    if (!single) {
        omp_set_num_threads(1);
        single = true;
    }
}

void poison(float * first, int64_t n_rows, int64_t n_columns, int64_t stride) {
    for (int64_t r = 0; r < n_rows; ++r) {
        std::fill_n(first + r * stride, n_columns, std::numeric_limits<float>::quiet_NaN());
    }
}

}  // namespace lumi
