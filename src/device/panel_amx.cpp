// Panel products on AMX tiles (amx_kernels.h). Blocks are chosen for a core's second-level cache:
// a panel of the weight is dequantised, split and cut into strips, multiplied with every token of
// the block, and forgotten. As in F32, threads share rows (forward) or columns (transposed) of W.
#include "device/amx_kernels.h"
#include "device/dequantise.h"
#include "device/panel_parts.h"

#include <algorithm>
#include <cstring>

namespace lumi {
namespace {

constexpr int64_t kTokens = 512;       // tokens at once
constexpr int64_t kPanel = 256;        // rows (forward) or columns (transposed) of W at once
constexpr int64_t kTerms = 512;        // terms of the sums at once
constexpr int64_t kOuterTerms = 2048;  // terms for which the forward's tokens are kept packed
constexpr int64_t kPair = 2 * kStrip;  // what one multiplication covers in both directions

// Everything that follows in a model amplifies what its forward pass loses, sometimes a hundred
// times; what a gradient loses on its way down stays what it is.
constexpr int kForwardParts = 3;
constexpr int kTransposedParts = 2;

int64_t round_up(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit * unit;
}

// Bytes of strips for n rows or columns by n_terms terms.
int64_t strips_bytes(int64_t n, int64_t n_terms, int parts) {
    return round_up(n, kPair) / kStrip * (round_up(n_terms, kStep) / kStep) * step_bytes(parts);
}

// A thread's memory, cut into what the two directions need.
struct Scratch {
    uint8_t * tokens = nullptr;  // strips of x
    uint8_t * panel = nullptr;   // strips of W
    float * rows = nullptr;      // two dequantised rows of kTerms numbers
    float * sums = nullptr;      // results on their way out

    Scratch(int64_t token_bytes, int64_t panel_bytes, int64_t n_sums) {
        const int64_t floats = (2 * kTerms + n_sums) * static_cast<int64_t>(sizeof(float));
        auto * memory = reinterpret_cast<uint8_t *>(
            thread_scratch(static_cast<size_t>(token_bytes + panel_bytes + floats)));
        if (memory != nullptr) {
            tokens = memory;
            panel = tokens + token_bytes;
            rows = reinterpret_cast<float *>(panel + panel_bytes);
            sums = rows + 2 * kTerms;
        }
    }
};

// Columns [cols) of row `row` of W: dequantised into to, or W's own memory when it is F32.
const float * weight_row(const PanelTask & task, DequantiseRow dequantise, int64_t row, Range cols,
                         float * to) {
    const char * blocks = task.blocks(row, cols.begin);
    if (dequantise == nullptr) {
        return reinterpret_cast<const float *>(blocks);
    }
    dequantise(blocks, to, cols.size());
    return to;
}

// n rows of n_terms numbers, stride floats apart, as left strips. Terms past the last multiple of
// kStep are filled up with zeros.
void pack_rows(const float * x, int64_t stride, int64_t n, int64_t n_terms, int parts,
               float * row_memory, uint8_t * strips, int64_t strip_bytes) {
    const int64_t whole = n_terms / kStep * kStep;
    for (int64_t i = 0; i < n; ++i) {
        uint8_t * strip = strips + i / kStrip * strip_bytes;
        const float * row = x + i * stride;
        pack_left_row(row, whole, i % kStrip, parts, strip);
        if (whole < n_terms) {
            std::memset(row_memory, 0, kStep * sizeof(float));
            std::memcpy(row_memory, row + whole,
                        static_cast<size_t>(n_terms - whole) * sizeof(float));
            pack_left_row(row_memory, kStep, i % kStrip, parts,
                          strip + whole / kStep * step_bytes(parts));
        }
    }
}

// y of one panel of rows and one block of tokens from sums [kPanel rows][ldc tokens].
void store_panel(const float * sums, int64_t ldc, int64_t n_rows, int64_t n_tokens, float * y,
                 int64_t n_out, bool accumulate) {
    for (int64_t t = 0; t < n_tokens; t += kStrip) {
        for (int64_t r = 0; r < n_rows; r += kStrip) {
            store_transposed(sums + r * ldc + t, ldc, std::min(kStrip, n_rows - r),
                             std::min(kStrip, n_tokens - t), y + t * n_out + r, n_out, accumulate);
        }
    }
}

StripPair after(StripPair pair) {
    return {pair.first + 2 * pair.strip_bytes, pair.strip_bytes};
}

// sums = W[rows, terms] x, over all of the outer block's terms.
void multiply_panel(const PanelTask & task, const Scratch & scratch, Range rows, Range terms,
                    int64_t n_tokens, int64_t token_strip_bytes) {
    const DequantiseRow dequantise = row_dequantiser(task.weight->type);
    const int64_t ldc = round_up(n_tokens, kPair);
    for (int64_t k = terms.begin; k < terms.end; k += kTerms) {
        const int64_t n_terms = std::min(kTerms, terms.end - k);
        const int64_t n_steps = n_terms / kStep;
        const int64_t strip_bytes = n_steps * step_bytes(kForwardParts);
        for (int64_t r = 0; r < rows.size(); ++r) {
            const float * row =
                weight_row(task, dequantise, rows.begin + r, {k, k + n_terms}, scratch.rows);
            pack_left_row(row, n_terms, r % kStrip, kForwardParts,
                          scratch.panel + r / kStrip * strip_bytes);
        }
        const uint8_t * tokens =
            scratch.tokens + (k - terms.begin) / kStep * step_bytes(kForwardParts);
        for (int64_t t = 0; t < n_tokens; t += kPair) {
            const StripPair right = {tokens + t / kStrip * token_strip_bytes, token_strip_bytes};
            for (int64_t r = 0; r < rows.size(); r += kPair) {
                const StripPair left = {scratch.panel + r / kStrip * strip_bytes, strip_bytes};
                float * sums = scratch.sums + r * ldc + t;
                multiply_strips(left, right, n_steps, kForwardParts, sums, ldc, k > terms.begin,
                                {left, after(right), r / kPair, sums + kPair * ldc});
            }
        }
    }
}

void forward_block(const PanelTask & task, const Scratch & scratch, Range mine, Range tokens) {
    const int64_t n_in = task.n_in();
    const int64_t n_out = task.n_out();
    for (int64_t k = 0; k < n_in; k += kOuterTerms) {
        const Range terms{k, std::min(n_in, k + kOuterTerms)};
        const int64_t n_steps = terms.size() / kStep;
        const int64_t strip_bytes = n_steps * step_bytes(kForwardParts);
        pack_rows(task.x + tokens.begin * n_in + k, n_in, tokens.size(), terms.size(),
                  kForwardParts, scratch.rows, scratch.tokens, strip_bytes);
        for (int64_t t = 0; t < tokens.size(); t += kStrip) {
            left_to_right(scratch.tokens + t / kStrip * strip_bytes, n_steps * kForwardParts);
        }
        for (int64_t row = mine.begin; row < mine.end; row += kPanel) {
            const Range rows{row, std::min(row + kPanel, mine.end)};
            multiply_panel(task, scratch, rows, terms, tokens.size(), strip_bytes);
            store_panel(scratch.sums, round_up(tokens.size(), kPair), rows.size(), tokens.size(),
                        task.y + tokens.begin * n_out + row, n_out, k > 0);
        }
    }
}

// y[tokens, cols] (+)= x[tokens, terms] W[terms, cols], both sides packed.
void multiply_columns(const Scratch & scratch, int64_t n_tokens, int64_t n_cols, int64_t n_steps,
                      float * y, int64_t n_in, bool accumulate) {
    const int64_t strip_bytes = n_steps * step_bytes(kTransposedParts);
    for (int64_t t = 0; t < n_tokens; t += kPair) {
        const StripPair left = {scratch.tokens + t / kStrip * strip_bytes, strip_bytes};
        const int64_t n_rows = std::min(kPair, n_tokens - t);
        for (int64_t c = 0; c < n_cols; c += kPair) {
            const StripPair right = {scratch.panel + c / kStrip * strip_bytes, strip_bytes};
            float * to = y + t * n_in + c;
            const Prefetch prefetch = {right, after(left), c / kPair, to + kPair};
            if (n_rows == kPair) {
                multiply_strips(left, right, n_steps, kTransposedParts, to, n_in, accumulate,
                                prefetch);
                continue;
            }
            multiply_strips(left, right, n_steps, kTransposedParts, scratch.sums, kPair, false,
                            prefetch);
            for (int64_t r = 0; r < n_rows; ++r) {
                for (int64_t i = 0; i < kPair; ++i) {
                    const float sum = scratch.sums[r * kPair + i];
                    to[r * n_in + i] = accumulate ? to[r * n_in + i] + sum : sum;
                }
            }
        }
    }
}

// Rows [terms) and columns [cols) of W as right strips; terms past the last row are zeros.
void pack_columns(const PanelTask & task, const Scratch & scratch, Range terms, Range cols) {
    const DequantiseRow dequantise = row_dequantiser(task.weight->type);
    const int64_t n_terms = round_up(terms.size(), kStep);
    const int64_t strip_bytes = n_terms / kStep * step_bytes(kTransposedParts);
    for (int64_t k = 0; k < n_terms; k += 2) {
        const float * pair[2] = {scratch.rows, scratch.rows + kTerms};
        for (int64_t i = 0; i < 2; ++i) {
            float * to = scratch.rows + i * kTerms;
            if (k + i < terms.size()) {
                pair[i] = weight_row(task, dequantise, terms.begin + k + i, cols, to);
            } else {
                std::fill_n(to, cols.size(), 0.0F);
            }
        }
        pack_right_pair(pair[0], pair[1], cols.size(), k, kTransposedParts, scratch.panel,
                        strip_bytes);
    }
}

void transposed_block(const PanelTask & task, const Scratch & scratch, Range cols, Range tokens) {
    const int64_t n_in = task.n_in();
    const int64_t n_out = task.n_out();
    for (int64_t k = 0; k < n_out; k += kTerms) {
        const Range terms{k, std::min(n_out, k + kTerms)};
        const int64_t n_steps = round_up(terms.size(), kStep) / kStep;
        pack_rows(task.x + tokens.begin * n_out + k, n_out, tokens.size(), terms.size(),
                  kTransposedParts, scratch.rows, scratch.tokens,
                  n_steps * step_bytes(kTransposedParts));
        for (int64_t c = cols.begin; c < cols.end; c += kPanel) {
            const Range panel{c, std::min(c + kPanel, cols.end)};
            pack_columns(task, scratch, terms, panel);
            multiply_columns(scratch, tokens.size(), panel.size(), n_steps,
                             task.y + tokens.begin * n_in + c, n_in, k > 0);
        }
    }
}

}  // namespace

void forward_amx(const PanelTask & task) {
    const Range mine = part(task.n_out(), kPair, task.thread, task.n_threads);
    const int64_t n_tokens = std::min(kTokens, task.n_tokens);
    const Scratch scratch(strips_bytes(n_tokens, std::min(task.n_in(), kOuterTerms), kForwardParts),
                          strips_bytes(kPanel, kTerms, kForwardParts),
                          kPanel * round_up(n_tokens, kPair));
    if (scratch.sums == nullptr) {
        poison(task.y + mine.begin, task.n_tokens, mine.size(), task.n_out());
        return;
    }
    const TileScope tiles;
    for (int64_t t = 0; mine.size() > 0 && t < task.n_tokens; t += kTokens) {
        forward_block(task, scratch, mine, {t, std::min(t + kTokens, task.n_tokens)});
    }
}

void transposed_amx(const PanelTask & task) {
    const int64_t n_in = task.n_in();
    const int64_t block = std::max<int64_t>(ggml_blck_size(task.weight->type), kPair);
    const Grid grid = choose_grid((n_in + block - 1) / block, task.n_tokens, task.n_threads);
    if (task.thread >= grid.a * grid.b) {
        return;
    }
    const Range cols = part(n_in, block, task.thread % grid.a, grid.a);
    const Range tokens = part(task.n_tokens, 1, task.thread / grid.a, grid.b);
    const Scratch scratch(strips_bytes(std::min(kTokens, tokens.size()), kTerms, kTransposedParts),
                          strips_bytes(kPanel, kTerms, kTransposedParts), kPair * kPair);
    if (scratch.sums == nullptr) {
        poison(task.y + tokens.begin * n_in + cols.begin, tokens.size(), cols.size(), n_in);
        return;
    }
    const TileScope tiles;
    for (int64_t t = tokens.begin; t < tokens.end; t += kTokens) {
        transposed_block(task, scratch, cols, {t, std::min(t + kTokens, tokens.end)});
    }
}

}  // namespace lumi
