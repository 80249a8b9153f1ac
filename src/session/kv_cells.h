// Which cell of the KV cache holds which position. Global layers have a cell a position; sliding
// layers share a ring just large enough for a window and a batch: position p lies in cell p % n.
#pragma once

#include "model/config.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lumi {

// Graphs read whole multiples of this many cells, so that one graph serves many decoded tokens.
inline constexpr int kCellStep = 256;

class KvCells {
  public:
    KvCells(const Config & config, int n_ctx, int n_batch);

    int n_full() const { return n_full_; }
    int n_swa() const { return static_cast<int>(ring_.size()); }  // 0 without sliding layers
    int window() const { return window_; }

    // Cells that a graph must read so that every position below end is among them.
    int read_full(int end) const;
    int read_swa(int end) const;

    // The positions [first, first + n) are about to be written: what their cells held is gone.
    void overwrite(int first, int n);
    // They were written.
    void confirm(int first, int n);
    // Forgets positions >= length.
    void truncate(int length);
    // True when every position that the token at `length` may see is still held.
    bool can_continue_at(int length) const;

    // Masks of the tokens at positions first, first + 1, ..., one row of n_read cells each: seen
    // for visible cells, hidden for all others. Every element is written.
    template <typename T> void fill_mask_full(int first, int n_tokens, int n_read, T seen, T hidden,
                                              std::span<T> out) const;
    template <typename T> void fill_mask_swa(int first, int n_tokens, int n_read, T seen, T hidden,
                                             std::span<T> out) const;

  private:
    int n_full_ = 0;
    int window_ = 0;
    std::vector<int32_t> ring_;  // position each ring cell holds, -1 for none
};

}  // namespace lumi
