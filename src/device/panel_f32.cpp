// Panel products in F32 arithmetic: dequantised panels and oneDNN's GEMM. Each thread computes its
// own part of the output alone, so no thread waits for another and nothing is reduced:
//   y = W x     a range of W's rows, one panel of rows after the other;
//   y = W^T x   a range of W's columns (whole quantisation blocks), summed over panels of rows.
#include "device/dequantise.h"
#include "device/panel_parts.h"

#include <dnnl.h>

#include <algorithm>

namespace lumi {
namespace {

// Bytes of one dequantised panel: it should stay in a core's own cache while the product reads it.
constexpr int64_t kPanelBytes = 1 << 20;
constexpr int64_t kMinPanelRows = 32;
constexpr int64_t kMaxPanelRows = 512;

float * panel_scratch(int64_t n_floats) {
    use_one_thread_of_onednn();
    return reinterpret_cast<float *>(thread_scratch(static_cast<size_t>(n_floats) * sizeof(float)));
}

int64_t panel_rows(int64_t n_columns, int64_t n_rows) {
    const int64_t by_bytes = kPanelBytes / (n_columns * static_cast<int64_t>(sizeof(float)));
    return std::min(n_rows, std::clamp(by_bytes, kMinPanelRows, kMaxPanelRows));
}

// Rows [rows) of the weight, columns [cols), as floats: the weight's own memory when it is F32,
// otherwise dequantised into scratch. stride: floats between rows of what is returned.
const float * dequantised(const PanelTask & task, Range rows, Range cols, float * scratch,
                          int64_t & stride) {
    const DequantiseRow dequantise = row_dequantiser(task.weight->type);
    if (dequantise == nullptr) {
        stride = static_cast<int64_t>(task.weight->nb[1] / sizeof(float));
        return reinterpret_cast<const float *>(task.blocks(rows.begin, cols.begin));
    }
    for (int64_t r = 0; r < rows.size(); ++r) {
        dequantise(task.blocks(rows.begin + r, cols.begin), scratch + r * cols.size(), cols.size());
    }
    stride = cols.size();
    return scratch;
}

}  // namespace

void forward_f32(const PanelTask & task) {
    const int64_t n_in = task.n_in();
    const int64_t n_out = task.n_out();
    const bool is_f32 = task.weight->type == GGML_TYPE_F32;

    const Range mine = part(n_out, 16, task.thread, task.n_threads);
    const int64_t step = is_f32 ? std::max<int64_t>(mine.size(), 1) : panel_rows(n_in, n_out);
    float * scratch = panel_scratch(is_f32 ? 16 : step * n_in);
    for (int64_t row = mine.begin; row < mine.end; row += step) {
        const Range rows{row, std::min(row + step, mine.end)};
        int64_t stride = 0;
        const float * panel =
            scratch ? dequantised(task, rows, {0, n_in}, scratch, stride) : nullptr;
        const bool done =
            panel && dnnl_sgemm('N', 'T', task.n_tokens, rows.size(), n_in, 1.0F, task.x, n_in,
                                panel, stride, 0.0F, task.y + row, n_out) == dnnl_success;
        if (!done) {
            poison(task.y + row, task.n_tokens, rows.size(), n_out);
        }
    }
}

void transposed_f32(const PanelTask & task) {
    const int64_t n_in = task.n_in();
    const int64_t n_out = task.n_out();
    const bool is_f32 = task.weight->type == GGML_TYPE_F32;
    const int64_t block = std::max<int64_t>(ggml_blck_size(task.weight->type), 32);

    const Grid grid = choose_grid((n_in + block - 1) / block, task.n_tokens, task.n_threads);
    if (task.thread >= grid.a * grid.b) {
        return;
    }
    const Range cols = part(n_in, block, task.thread % grid.a, grid.a);
    const Range tokens = part(task.n_tokens, 1, task.thread / grid.a, grid.b);
    const float * x = task.x + tokens.begin * n_out;
    float * y = task.y + tokens.begin * n_in + cols.begin;

    const int64_t step = is_f32 ? n_out : panel_rows(cols.size(), n_out);
    float * scratch = panel_scratch(is_f32 ? 16 : step * cols.size());
    for (int64_t row = 0; row < n_out; row += step) {
        const Range rows{row, std::min(row + step, n_out)};
        int64_t stride = 0;
        const float * panel = scratch ? dequantised(task, rows, cols, scratch, stride) : nullptr;
        const bool done = panel && dnnl_sgemm('N', 'N', tokens.size(), cols.size(), rows.size(),
                                              1.0F, x + row, n_out, panel, stride,
                                              row == 0 ? 0.0F : 1.0F, y, n_in) == dnnl_success;
        if (!done) {
            poison(y, tokens.size(), cols.size(), n_in);
            return;
        }
    }
}

}  // namespace lumi
