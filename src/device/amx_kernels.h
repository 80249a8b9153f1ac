// F32-like products on Intel's AMX tiles. A number is cut into BF16 parts, each the rounded rest of
// those before, and a product is made of tile products of parts summed in F32, with F32's range:
//   2 parts, 3 products: hi*hi + hi*lo + lo*hi loses at most kSplitError of a term;
//   3 parts, 6 products: all but the smallest three; what it loses is below F32's own rounding.
//
// The left matrix is cut into strips of 16 rows, the right one into strips of 16 columns; a strip
// is a row of steps, a step is one tile (1 KiB) a part of 32 terms of the sums, largest part first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lumi {

inline constexpr double kSplitError = 3.0 / 65536;  // 3 * 2^-16; 5e-6 of a random product
inline constexpr int64_t kStrip = 16;               // rows or columns of a strip
inline constexpr int64_t kStep = 32;                // terms of a step
inline constexpr int64_t kTileBytes = 1024;

constexpr int64_t step_bytes(int parts) {
    return parts * kTileBytes;
}

// Whether this CPU and this system run what follows. Asks the system for the tiles' state once.
bool amx_available();

// The tiles' shapes of this thread for as long as it lives; then what was before, because ggml
// sets its own shapes once per thread and never again.
class TileScope {
  public:
    TileScope();
    ~TileScope();
    TileScope(const TileScope &) = delete;
    TileScope & operator=(const TileScope &) = delete;

  private:
    alignas(64) uint8_t before_[64];
};

// n (a multiple of kStep) numbers as row `row` of a left strip.
void pack_left_row(const float * x, int64_t n, int64_t row, int parts, uint8_t * strip);
// Two rows of n (a multiple of kStrip) numbers as terms k and k + 1 (k even) of n / kStrip right
// strips that lie strip_bytes apart.
void pack_right_pair(const float * x, const float * next, int64_t n, int64_t k, int parts,
                     uint8_t * strips, int64_t strip_bytes);
// A left strip of n_tiles becomes the right strip of its transpose, in place.
void left_to_right(uint8_t * strip, int64_t n_tiles);

// Two neighbouring strips, strip_bytes apart.
struct StripPair {
    const uint8_t * first = nullptr;
    int64_t strip_bytes = 0;
};
// What a multiplication fetches while it computes, because tile loads wait for the caches one after
// the other: the next steps of the pair that changes with every call, an eighth (ahead_part) of the
// pair that changes every eight calls or so, and the next call's results.
struct Prefetch {
    StripPair changing;
    StripPair ahead;
    int64_t ahead_part = 0;
    const float * next_c = nullptr;
};
// c [32, 32], rows ldc floats apart, = (or += with accumulate) left times right of n_steps steps.
void multiply_strips(StripPair left, StripPair right, int64_t n_steps, int parts, float * c,
                     int64_t ldc, bool accumulate, const Prefetch & prefetch);

// to [16 columns of from][16 rows of from] = (or +=) the transpose of from; rows of from beyond
// n_rows and columns beyond n_columns are left out.
void store_transposed(const float * from, int64_t from_stride, int64_t n_rows, int64_t n_columns,
                      float * to, int64_t to_stride, bool accumulate);

}  // namespace lumi
