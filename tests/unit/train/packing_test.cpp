// Samples packed side by side: targets shifted by one, nobody sees a neighbour, padding is nothing.
#include "train/packing.h"

#include "tiny_training.h"
#include "train/graph_runner.h"
#include "train/parameters.h"
#include "train/transposed_weights.h"

#include <cmath>
#include <cstdio>
#include <map>

namespace lumi {

namespace {

std::vector<const Sample *> pointers(const Dataset & dataset) {
    std::vector<const Sample *> out;
    for (const Sample & sample : dataset.samples) {
        out.push_back(&sample);
    }
    return out;
}

// cases/training.md L28, on three tokens by hand: the third is the target, the second predicts it.
TEST(Packing, TheTokenBeforeATargetPredictsIt) {
    Dataset dataset;
    dataset.samples.push_back({{101, 102, 103}, {0.0F, 0.0F, 0.5F}, 1});
    const auto batches = pack_samples(pointers(dataset), 64);
    ASSERT_EQ(batches.size(), 1U);
    const PackedBatch & b = batches[0];
    EXPECT_EQ(b.n_tokens, 3U);
    EXPECT_EQ(b.n_targets, 1U);
    for (size_t r = 0; r < b.rows.size(); ++r) {
        const bool target = b.rows[r] == 1;
        EXPECT_EQ(b.weights[r], target ? 0.5F : 0.0F);
        EXPECT_EQ(b.row_samples[r], target ? 0 : -1);
        if (target) {
            EXPECT_EQ(b.labels[r], 103);
        }
    }
}

TEST(Packing, PadsTokensAndRowsWithDistinctAscendingRows) {
    const Dataset dataset = rule_dataset({13, 20});
    const auto batches = pack_samples(pointers(dataset), 64);
    ASSERT_EQ(batches.size(), 1U);
    const PackedBatch & b = batches[0];
    EXPECT_EQ(b.tokens.size(), 40U);
    EXPECT_EQ(b.n_targets, 7U + 10U);
    EXPECT_EQ(b.rows.size(), 24U);
    for (size_t r = 1; r < b.rows.size(); ++r) {
        EXPECT_LT(b.rows[r - 1], b.rows[r]);
    }
}

TEST(Packing, FillsWindowsFirstFit) {
    const Dataset dataset = rule_dataset({40, 30, 20, 30, 90});
    const auto batches = pack_samples(pointers(dataset), 64);
    ASSERT_EQ(batches.size(), 3U);
    EXPECT_EQ(batches[0].n_tokens, 60U);  // 40 and 20
    EXPECT_EQ(batches[1].n_tokens, 60U);  // 30 and 30
    EXPECT_EQ(batches[2].n_tokens, 90U);  // too long for the window: alone
}

TEST(Packing, MaskIsCausalWindowedAndBlindToNeighbours) {
    const Dataset dataset = rule_dataset({5, 4});
    const PackedBatch b = pack_samples(pointers(dataset), 64)[0];
    ASSERT_EQ(b.tokens.size(), 16U);
    std::vector<int32_t> all(16);
    for (int i = 0; i < 16; ++i) {
        all[static_cast<size_t>(i)] = i;
    }
    std::vector<float> mask(16 * 16);
    fill_mask(b, all, 2, mask);
    for (size_t i = 0; i < 16; ++i) {
        for (size_t j = 0; j < 16; ++j) {
            const float x = mask[i * 16 + j];
            const bool same = b.segments[i] == b.segments[j] && b.segments[i] >= 0;
            EXPECT_EQ(x == 0.0F, i == j || (same && j < i && i - j < 2)) << i << " " << j;
            EXPECT_TRUE(x == 0.0F || std::isinf(x));
        }
    }
}

// Losses and gradients of some runs.
struct Outcome {
    double loss = 0;
    std::map<int, std::vector<float>> row_losses;  // of each sample, in its order
    std::vector<float> gradients;
};

// The parameter: plain ggml products (the graph that every backend runs), or the CPU's panels.
class PackedRun : public testing::TestWithParam<bool> {
  protected:
    Outcome run(const std::vector<PackedBatch> & batches) {
        AdapterData start = make_adapter(model_->config(), model_->plain_weights(), {}, 4, 8.0F, 1);
        for (LoraMatrixPair & pair : start.pairs) {
            for (size_t i = 0; i < pair.b.size(); ++i) {
                pair.b[i] = 0.02F * static_cast<float>(static_cast<int>(i % 7) - 3);
            }
        }
        auto parameters = TrainParameters::create(start, model_->device());
        EXPECT_TRUE(parameters.ok());
        RunnerOptions options;
        options.graph = graph_options(*model_, GetParam(), true);
        std::unique_ptr<TransposedWeights> transposed;
        if (GetParam()) {
            transposed = std::move(TransposedWeights::create(*model_, 0)).value();
            options.graph.transposed = [&](const ggml_tensor * w) { return transposed->find(w); };
        }
        GraphRunner runner(*model_, (*parameters)->view(), (*parameters)->pairs(), options);
        Outcome outcome;
        for (const PackedBatch & batch : batches) {
            EXPECT_TRUE(runner.begin(batch, true, 1.0F).ok());
            while (!runner.advance().value()) {
            }
            outcome.loss += runner.loss_sum();
            const std::vector<float> losses = runner.row_losses();
            for (size_t r = 0; r < losses.size(); ++r) {
                outcome.row_losses[batch.row_samples[r]].push_back(losses[r]);
            }
        }
        outcome.row_losses.erase(-1);
        const ggml_tensor * g = (*parameters)->gradients();
        outcome.gradients.resize(static_cast<size_t>(ggml_nelements(g)));
        ggml_backend_tensor_get(g, outcome.gradients.data(), 0, ggml_nbytes(g));
        return outcome;
    }

    static void expect_same(const Outcome & a, const Outcome & b) {
        EXPECT_NEAR(a.loss, b.loss, 1e-5 * std::abs(b.loss));
        double difference = 0;
        double size = 0;
        for (size_t i = 0; i < a.gradients.size(); ++i) {
            const auto x = static_cast<double>(a.gradients[i]);
            const auto y = static_cast<double>(b.gradients[i]);
            difference += (x - y) * (x - y);
            size += y * y;
        }
        std::printf("loss %.1e, gradients %.1e apart\n", std::abs(a.loss / b.loss - 1),
                    std::sqrt(difference / size));
        EXPECT_GT(size, 0.0);
        EXPECT_LT(std::sqrt(difference / size), 1e-4);
    }

    std::unique_ptr<Model> model_ = load_tiny("tiny-gemma4.gguf");
};

// cases/training.md L27.
TEST_P(PackedRun, MorePaddingChangesNothing) {
    const Dataset dataset = rule_dataset({13});
    std::vector<PackedBatch> batches = pack_samples(pointers(dataset), 64);
    const Outcome tight = run(batches);
    PackedBatch & wide = batches[0];
    const size_t n = wide.tokens.size();
    for (size_t i = 0; i < 16; ++i) {
        wide.tokens.push_back(static_cast<int32_t>(i));
        wide.positions.push_back(static_cast<int32_t>(i));
        wide.segments.push_back(-1);
        if (i < 8) {
            wide.rows.push_back(static_cast<int32_t>(n + i));
            wide.labels.push_back(5);
            wide.weights.push_back(0.0F);
            wide.row_samples.push_back(-1);
        }
    }
    expect_same(run(batches), tight);
}

// cases/training.md L26: what is added up does not depend on how samples share runs: losses of
// every row and all gradients, of samples shorter and longer than the sliding window, one of them
// with a single target, one with a negative weight.
TEST_P(PackedRun, SideBySideEqualsEachAlone) {
    Dataset dataset = rule_dataset({12, 4 * model_->config().window, 9, 3, 40});
    dataset.samples[3].target_weight = {0.0F, 0.0F, 0.5F};
    for (float & weight : dataset.samples[2].target_weight) {
        weight *= -0.25F;
    }
    const auto all = pointers(dataset);
    const auto together = pack_samples(all, 1024);
    const auto alone = pack_samples(all, 1);
    ASSERT_EQ(together.size(), 1U);
    ASSERT_EQ(alone.size(), all.size());
    const Outcome packed = run(together);
    Outcome apart = run(alone);
    expect_same(packed, apart);
    ASSERT_EQ(packed.row_losses.size(), all.size());
    for (const auto & [sample, losses] : packed.row_losses) {
        const std::vector<float> & other = apart.row_losses.at(sample);
        ASSERT_EQ(losses.size(), other.size());
        for (size_t i = 0; i < losses.size(); ++i) {
            EXPECT_NEAR(losses[i], other[i], 1e-4 * other[i]) << sample << " " << i;
        }
    }
}

// Whatever the neighbours say, a sample's losses are the same: nothing looks across, in global and
// in sliding layers.
TEST_P(PackedRun, NeighboursAreNotSeen) {
    Dataset dataset = rule_dataset({11, 2 * model_->config().window + 3, 14});
    const Outcome before = run(pack_samples(pointers(dataset), 1024));
    for (const size_t other : {size_t{0}, size_t{2}}) {
        for (size_t i = 1; i < dataset.samples[other].tokens.size(); ++i) {
            dataset.samples[other].tokens[i] = static_cast<int32_t>(60 + (i * 11 + other) % 40);
        }
    }
    const Outcome after = run(pack_samples(pointers(dataset), 1024));
    EXPECT_NE(before.row_losses.at(0), after.row_losses.at(0));
    EXPECT_NE(before.row_losses.at(2), after.row_losses.at(2));
    const std::vector<float> & kept = before.row_losses.at(1);
    for (size_t i = 0; i < kept.size(); ++i) {
        EXPECT_NEAR(kept[i], after.row_losses.at(1)[i], 1e-6 * kept[i]) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Products, PackedRun, testing::Bool(), [](const auto & param) {
    return std::string(param.param ? "portable" : "panels");
});

// Positions are those of the sample alone, wherever it lies.
TEST(Packing, PositionsRestartWithEverySample) {
    const Dataset dataset = rule_dataset({5, 3});
    const PackedBatch b = pack_samples(pointers(dataset), 64)[0];
    EXPECT_EQ(b.positions, (std::vector<int32_t>{0, 1, 2, 3, 4, 0, 1, 2}));
    EXPECT_EQ(b.segments, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1}));
}

}  // namespace

}  // namespace lumi
