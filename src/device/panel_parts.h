// What the kernels of panel_product and dense_product share: the task of one thread, how threads
// share the output, and each thread's memory. Internal to device/.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>

namespace lumi {

struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
};

// Part i of n of [0, count), as even as units of `unit` allow.
Range part(int64_t count, int64_t unit, int64_t i, int64_t n);

// How threads share an output of `units` indivisible columns by `tokens` rows: a * b <= n_threads.
struct Grid {
    int64_t a = 1;  // parts of the units
    int64_t b = 1;  // parts of the tokens; each dequantises the same panels again
};
Grid choose_grid(int64_t units, int64_t tokens, int64_t n_threads);

// One thread's work on y = W x (x [in, T], y [out, T]) or on y = W^T x (x [out, T], y [in, T]).
struct PanelTask {
    const ggml_tensor * weight;  // [in, out]
    const float * x;
    float * y;
    int64_t n_tokens;
    int64_t thread;
    int64_t n_threads;

    int64_t n_in() const { return weight->ne[0]; }
    int64_t n_out() const { return weight->ne[1]; }
    // Row `row` of the weight from column `column` on.
    const char * blocks(int64_t row, int64_t column) const {
        return static_cast<const char *>(weight->data) + static_cast<size_t>(row) * weight->nb[1] +
               ggml_row_size(weight->type, column);
    }
};

// 64-byte aligned memory of the calling thread, kept between products; null when there is none. Its
// content is lost with the next call.
std::byte * thread_scratch(size_t n_bytes);

// oneDNN's own pool stays at one thread: ggml's threads are the only parallelism (two pools on the
// same cores lose everything). To be called by each thread before its first product.
void use_one_thread_of_onednn();

// Called when a product could not run (no memory): numbers nobody can mistake for a result, so that
// the caller's check for finite values stops.
void poison(float * first, int64_t n_rows, int64_t n_columns, int64_t stride);

// The kernels, see panel_product.h.
void forward_f32(const PanelTask & task);
void transposed_f32(const PanelTask & task);
void forward_amx(const PanelTask & task);
void transposed_amx(const PanelTask & task);

}  // namespace lumi
