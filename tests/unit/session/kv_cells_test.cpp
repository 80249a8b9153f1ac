// Cells and masks: the ring against a plain record of what was written where.
#include "session/kv_cells.h"

#include <gtest/gtest.h>

namespace lumi {
namespace {

Config config_with(int window) {
    Config config;
    config.window = window;
    config.layers.resize(2);
    config.layers[0].is_swa = window > 0;
    return config;
}

TEST(KvCells, SlidingLayersAreSizedByWindowAndBatch) {
    const KvCells cells(config_with(512), 131072, 512);
    EXPECT_EQ(cells.n_full(), 131072);
    EXPECT_EQ(cells.n_swa(), 1024);
    const KvCells small(config_with(512), 300, 300);
    EXPECT_EQ(small.n_full(), 512);
    EXPECT_EQ(small.n_swa(), 512);
    const KvCells none(config_with(0), 300, 300);
    EXPECT_EQ(none.n_swa(), 0);
    EXPECT_TRUE(none.can_continue_at(300));
}

TEST(KvCells, GraphsReadWholeStepsUpToWhatExists) {
    const KvCells cells(config_with(8), 1000, 20);
    EXPECT_EQ(cells.read_full(1), 256);
    EXPECT_EQ(cells.read_full(256), 256);
    EXPECT_EQ(cells.read_full(257), 512);
    EXPECT_EQ(cells.read_full(1000), 1024);
    EXPECT_EQ(cells.read_swa(1), 32);
    EXPECT_EQ(cells.read_swa(1000), 32);
}

TEST(KvCells, ContinuingNeedsTheWholeWindowBefore) {
    KvCells cells(config_with(8), 512, 20);  // a ring of 32
    ASSERT_EQ(cells.n_swa(), 32);
    EXPECT_TRUE(cells.can_continue_at(0));
    EXPECT_FALSE(cells.can_continue_at(1));
    cells.confirm(0, 100);
    for (int length = 1; length <= 100; ++length) {
        // Positions 68..99 are held; the token at `length` sees length-7 .. length-1.
        EXPECT_EQ(cells.can_continue_at(length), length >= 75) << length;
    }
    cells.truncate(80);
    EXPECT_TRUE(cells.can_continue_at(80));
    EXPECT_FALSE(cells.can_continue_at(81));
    // A batch that failed leaves its cells without content.
    cells.overwrite(80, 28);
    EXPECT_FALSE(cells.can_continue_at(80));
}

TEST(KvCells, MasksShowExactlyCausalAndWindow) {
    const int window = 8;
    KvCells cells(config_with(window), 512, 20);
    const int n = cells.n_swa();
    for (const int first : {0, 3, 25, 31, 32, 200}) {
        const int n_tokens = 20;
        cells.confirm(0, first + n_tokens);
        const int n_full = cells.read_full(first + n_tokens);
        std::vector<float> full(static_cast<size_t>(n_tokens * n_full), 7.0F);
        std::vector<float> swa(static_cast<size_t>(n_tokens * n), 7.0F);
        cells.fill_mask_full<float>(first, n_tokens, n_full, 0.0F, -1.0F, full);
        cells.fill_mask_swa<float>(first, n_tokens, n, 0.0F, -1.0F, swa);
        for (int i = 0; i < n_tokens; ++i) {
            const int q = first + i;
            for (int p = 0; p < n_full; ++p) {
                EXPECT_EQ(full[static_cast<size_t>(i * n_full + p)], p <= q ? 0.0F : -1.0F);
            }
            for (int c = 0; c < n; ++c) {
                bool visible = false;
                for (int p = c; p <= q; p += n) {
                    visible |= q - p < window;
                }
                EXPECT_EQ(swa[static_cast<size_t>(i * n + c)], visible ? 0.0F : -1.0F);
            }
        }
    }
}

}  // namespace
}  // namespace lumi
