// The two panel products. ggml gives every thread (ith, nth); each computes its own part of the
// output alone, so no thread waits for another and nothing is reduced:
//   y  = W x       a range of W's rows, one panel of rows after the other;
//   dx = W^T dy    a range of W's columns (whole quantisation blocks), summed over panels of rows.
#include "device/panel_product.h"

#include <dnnl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>

// Of the OpenMP runtime oneDNN itself is linked to. Declared here because another compiler's omp.h
// would bring another runtime with settings of its own.
extern "C" void omp_set_num_threads(int n);

namespace lumi {
namespace {

// Bytes of one dequantised panel: it should stay in a core's own cache while the product reads it.
constexpr int64_t kPanelBytes = 1 << 20;
constexpr int64_t kMinPanelRows = 32;
constexpr int64_t kMaxPanelRows = 512;

struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
};

// Part i of n of [0, count), as even as units of `unit` allow.
Range part(int64_t count, int64_t unit, int64_t i, int64_t n) {
    const int64_t units = (count + unit - 1) / unit;
    return {std::min(count, units * i / n * unit), std::min(count, units * (i + 1) / n * unit)};
}

// How threads share an output of `units` indivisible columns by `tokens` rows: a * b <= n_threads.
struct Grid {
    int64_t a = 1;  // parts of the units
    int64_t b = 1;  // parts of the tokens; each dequantises the same panels again
};

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

struct FreeDeleter {
    void operator()(float * p) const { std::free(p); }
};

// Each thread's panel, kept between products. oneDNN's own pool stays at one thread: ggml's threads
// are the only parallelism (two pools on the same cores lose everything).
float * panel_scratch(int64_t n_floats) {
    thread_local std::unique_ptr<float, FreeDeleter> memory;
    thread_local int64_t capacity = 0;
    thread_local bool single = false;
    if (!single) {
        omp_set_num_threads(1);
        single = true;
    }
    if (capacity < n_floats) {
        const size_t bytes = (static_cast<size_t>(n_floats) * sizeof(float) + 63) / 64 * 64;
        memory.reset(static_cast<float *>(std::aligned_alloc(64, bytes)));
        capacity = memory ? n_floats : 0;
    }
    return memory.get();
}

int64_t panel_rows(int64_t n_columns, int64_t n_rows) {
    const int64_t by_bytes = kPanelBytes / (n_columns * static_cast<int64_t>(sizeof(float)));
    return std::min(n_rows, std::clamp(by_bytes, kMinPanelRows, kMaxPanelRows));
}

// Rows [rows) of the weight, columns [cols), as floats: the weight's own memory when it is F32,
// otherwise dequantised into scratch. stride: floats between rows of what is returned.
const float * dequantised(const ggml_tensor * weight, Range rows, Range cols, float * scratch,
                          int64_t & stride) {
    const ggml_type type = weight->type;
    const char * first = static_cast<const char *>(weight->data) + rows.begin * weight->nb[1] +
                         ggml_row_size(type, cols.begin);
    if (type == GGML_TYPE_F32) {
        stride = static_cast<int64_t>(weight->nb[1] / sizeof(float));
        return reinterpret_cast<const float *>(first);
    }
    const ggml_to_float_t to_float = ggml_get_type_traits(type)->to_float;
    for (int64_t r = 0; r < rows.size(); ++r) {
        to_float(first + r * weight->nb[1], scratch + r * cols.size(), cols.size());
    }
    stride = cols.size();
    return scratch;
}

// Called when a product could not run (no memory): numbers nobody can mistake for a result, so that
// the caller's check for finite values stops.
void poison(float * first, int64_t n_rows, int64_t n_columns, int64_t stride) {
    for (int64_t r = 0; r < n_rows; ++r) {
        std::fill_n(first + r * stride, n_columns, std::numeric_limits<float>::quiet_NaN());
    }
}

// y [out, T] = W [in, out] applied to x [in, T]; this thread's rows of W.
void forward_part(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    const ggml_tensor * weight = dst->src[0];
    const int64_t n_in = weight->ne[0];
    const int64_t n_out = weight->ne[1];
    const int64_t n_tokens = ggml_nrows(dst);
    const bool is_f32 = weight->type == GGML_TYPE_F32;
    const float * x = static_cast<const float *>(dst->src[1]->data);
    float * y = static_cast<float *>(dst->data);

    const Range mine = part(n_out, 16, ith, nth);
    const int64_t step = is_f32 ? std::max<int64_t>(mine.size(), 1) : panel_rows(n_in, n_out);
    float * scratch = panel_scratch(is_f32 ? 16 : step * n_in);
    for (int64_t row = mine.begin; row < mine.end; row += step) {
        const Range rows{row, std::min(row + step, mine.end)};
        int64_t stride = 0;
        const float * panel =
            scratch ? dequantised(weight, rows, {0, n_in}, scratch, stride) : nullptr;
        const bool done = panel && dnnl_sgemm('N', 'T', n_tokens, rows.size(), n_in, 1.0F, x, n_in,
                                              panel, stride, 0.0F, y + row, n_out) == dnnl_success;
        if (!done) {
            poison(y + row, n_tokens, rows.size(), n_out);
        }
    }
}

// dx [in, T] = W^T dy [out, T]; this thread's columns of W and tokens.
void transposed_part(ggml_tensor * dst, int ith, int nth, void * /*unused*/) {
    const ggml_tensor * weight = dst->src[0];
    const int64_t n_in = weight->ne[0];
    const int64_t n_out = weight->ne[1];
    const int64_t n_tokens = ggml_nrows(dst);
    const bool is_f32 = weight->type == GGML_TYPE_F32;
    const int64_t block = std::max<int64_t>(ggml_blck_size(weight->type), 32);

    const Grid grid = choose_grid((n_in + block - 1) / block, n_tokens, nth);
    if (ith >= grid.a * grid.b) {
        return;
    }
    const Range cols = part(n_in, block, ith % grid.a, grid.a);
    const Range tokens = part(n_tokens, 1, ith / grid.a, grid.b);
    const float * dy = static_cast<const float *>(dst->src[1]->data) + tokens.begin * n_out;
    float * dx = static_cast<float *>(dst->data) + tokens.begin * n_in + cols.begin;

    const int64_t step = is_f32 ? n_out : panel_rows(cols.size(), n_out);
    float * scratch = panel_scratch(is_f32 ? 16 : step * cols.size());
    for (int64_t row = 0; row < n_out; row += step) {
        const Range rows{row, std::min(row + step, n_out)};
        int64_t stride = 0;
        const float * panel = scratch ? dequantised(weight, rows, cols, scratch, stride) : nullptr;
        const bool done = panel && dnnl_sgemm('N', 'N', tokens.size(), cols.size(), rows.size(),
                                              1.0F, dy + row, n_out, panel, stride,
                                              row == 0 ? 0.0F : 1.0F, dx, n_in) == dnnl_success;
        if (!done) {
            poison(dx, tokens.size(), cols.size(), n_in);
            return;
        }
    }
}

ggml_tensor * custom(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x, int64_t n_result,
                     ggml_custom_op_t part_function) {
    ggml_tensor * args[] = {weight, x};
    return ggml_custom_4d(ctx, GGML_TYPE_F32, n_result, x->ne[1], x->ne[2], x->ne[3], args, 2,
                          part_function, GGML_N_TASKS_MAX, nullptr);
}

}  // namespace

ggml_tensor * panel_product(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * x) {
    return custom(ctx, weight, x, weight->ne[1], forward_part);
}

ggml_tensor * panel_product_transposed(ggml_context * ctx, ggml_tensor * weight, ggml_tensor * dy) {
    return custom(ctx, weight, dy, weight->ne[0], transposed_part);
}

}  // namespace lumi
