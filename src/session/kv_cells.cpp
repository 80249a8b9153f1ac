// Positions and cells: arithmetic only, no tensors.
#include "session/kv_cells.h"

#include <algorithm>

namespace lumi {
namespace {

// Ring sizes are multiples of this: attention kernels work on whole tiles.
constexpr int kRingStep = 32;

int round_up(int value, int step) {
    return (value + step - 1) / step * step;
}

bool has_sliding_layers(const Config & config) {
    return std::any_of(config.layers.begin(), config.layers.end(),
                       [](const LayerConfig & layer) { return layer.is_swa; });
}

}  // namespace

KvCells::KvCells(const Config & config, int n_ctx, int n_batch)
    : n_full_(round_up(n_ctx, kCellStep)) {
    if (has_sliding_layers(config)) {
        // While a batch is written, its first token still sees a whole window before it.
        window_ = config.window;
        const int64_t wanted = int64_t{config.window} + n_batch;
        const int n = wanted < n_full_ ? round_up(static_cast<int>(wanted), kRingStep) : n_full_;
        ring_.assign(static_cast<size_t>(std::min(n, n_full_)), -1);
    }
}

int KvCells::read_full(int end) const {
    return std::min(n_full_, round_up(end, kCellStep));
}

int KvCells::read_swa(int end) const {
    return std::min(n_swa(), round_up(end, kCellStep));
}

void KvCells::overwrite(int first, int n) {
    for (int p = first; p < first + n && !ring_.empty(); ++p) {
        ring_[static_cast<size_t>(p) % ring_.size()] = -1;
    }
}

void KvCells::confirm(int first, int n) {
    for (int p = first; p < first + n && !ring_.empty(); ++p) {
        ring_[static_cast<size_t>(p) % ring_.size()] = p;
    }
}

void KvCells::truncate(int length) {
    for (int32_t & position : ring_) {
        position = position < length ? position : -1;
    }
}

bool KvCells::can_continue_at(int length) const {
    if (ring_.empty()) {
        return true;
    }
    for (int p = std::max(0, length - window_ + 1); p < length; ++p) {
        if (ring_[static_cast<size_t>(p) % ring_.size()] != p) {
            return false;
        }
    }
    return true;
}

template <typename T> void KvCells::fill_mask_full(int first, int n_tokens, int n_read, T seen,
                                                   T hidden, std::span<T> out) const {
    for (int i = 0; i < n_tokens; ++i) {
        const auto row = out.subspan(static_cast<size_t>(i) * static_cast<size_t>(n_read),
                                     static_cast<size_t>(n_read));
        const auto visible = row.begin() + first + i + 1;
        std::fill(row.begin(), visible, seen);
        std::fill(visible, row.end(), hidden);
    }
}

template <typename T> void KvCells::fill_mask_swa(int first, int n_tokens, int n_read, T seen,
                                                  T hidden, std::span<T> out) const {
    for (int i = 0; i < n_tokens; ++i) {
        const auto row = out.subspan(static_cast<size_t>(i) * static_cast<size_t>(n_read),
                                     static_cast<size_t>(n_read));
        std::fill(row.begin(), row.end(), hidden);
        const int position = first + i;
        for (int p = std::max(0, position - window_ + 1); p <= position; ++p) {
            row[static_cast<size_t>(p) % ring_.size()] = seen;
        }
    }
}

template void KvCells::fill_mask_full(int, int, int, float, float, std::span<float>) const;
template void KvCells::fill_mask_full(int, int, int, uint16_t, uint16_t, std::span<uint16_t>) const;
template void KvCells::fill_mask_swa(int, int, int, float, float, std::span<float>) const;
template void KvCells::fill_mask_swa(int, int, int, uint16_t, uint16_t, std::span<uint16_t>) const;

}  // namespace lumi
