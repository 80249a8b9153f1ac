// First-fit packing, padding and the block-diagonal causal masks.
#include "train/packing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lumi {

namespace {

size_t padded(size_t n) {
    return (n + kPaddingUnit - 1) / kPaddingUnit * kPaddingUnit;
}

// The samples of one batch, by index into the span packed.
using Group = std::vector<size_t>;

std::vector<Group> first_fit(std::span<const Sample * const> samples, size_t most) {
    std::vector<Group> groups;
    std::vector<size_t> used;
    for (size_t i = 0; i < samples.size(); ++i) {
        const size_t n = samples[i]->tokens.size();
        size_t g = 0;
        while (g < groups.size() && used[g] + n > most) {
            ++g;
        }
        if (g == groups.size()) {
            groups.emplace_back();
            used.push_back(0);
        }
        groups[g].push_back(i);
        used[g] += n;
    }
    return groups;
}

// Every token as a row candidate; what is kept are targets' predecessors and padding.
struct TokenRow {
    int32_t label = 0;
    float weight = 0.0F;
    int sample = -1;
};

PackedBatch pack_group(std::span<const Sample * const> samples, const Group & group) {
    PackedBatch batch;
    std::vector<TokenRow> token_rows;
    for (size_t segment = 0; segment < group.size(); ++segment) {
        const Sample & sample = *samples[group[segment]];
        for (size_t i = 0; i < sample.tokens.size(); ++i) {
            batch.tokens.push_back(sample.tokens[i]);
            batch.positions.push_back(static_cast<int32_t>(i));
            batch.segments.push_back(static_cast<int32_t>(segment));
            TokenRow row;
            // The logits of token i predict token i + 1 (L28).
            if (i + 1 < sample.tokens.size() && sample.target_weight[i + 1] != 0.0F) {
                row = {sample.tokens[i + 1], sample.target_weight[i + 1],
                       static_cast<int>(group[segment])};
            }
            batch.n_targets += row.sample >= 0 ? 1 : 0;
            token_rows.push_back(row);
        }
    }
    batch.n_tokens = batch.tokens.size();
    const size_t n = padded(batch.tokens.size());
    batch.tokens.resize(n, 0);
    batch.positions.resize(n, 0);
    batch.segments.resize(n, -1);
    token_rows.resize(n);

    size_t n_padding_rows = std::min(padded(batch.n_targets), n) - batch.n_targets;
    for (size_t t = 0; t < n; ++t) {
        const TokenRow & row = token_rows[t];
        if (row.sample < 0 && n_padding_rows == 0) {
            continue;
        }
        n_padding_rows -= row.sample < 0 ? 1 : 0;
        batch.rows.push_back(static_cast<int32_t>(t));
        batch.labels.push_back(row.label);
        batch.weights.push_back(row.weight);
        batch.row_samples.push_back(row.sample);
    }
    return batch;
}

}  // namespace

GraphShape PackedBatch::shape() const {
    const int n = static_cast<int>(tokens.size());
    return {n, static_cast<int>(rows.size()), n, n};
}

std::vector<PackedBatch> pack_samples(std::span<const Sample * const> samples, int most_tokens) {
    std::vector<PackedBatch> batches;
    for (const Group & group : first_fit(samples, static_cast<size_t>(most_tokens))) {
        batches.push_back(pack_group(samples, group));
    }
    return batches;
}

double total_weight(std::span<const Sample * const> samples) {
    double total = 0;
    for (const Sample * sample : samples) {
        for (size_t i = 1; i < sample->target_weight.size(); ++i) {  // nothing predicts the first
            total += std::abs(static_cast<double>(sample->target_weight[i]));
        }
    }
    return total;
}

void fill_mask(const PackedBatch & batch, std::span<const int32_t> rows, int window,
               std::span<float> mask) {
    const size_t n = batch.tokens.size();
    std::fill(mask.begin(), mask.end(), -std::numeric_limits<float>::infinity());
    for (size_t r = 0; r < rows.size(); ++r) {
        const auto i = static_cast<size_t>(rows[r]);
        float * line = mask.data() + r * n;
        line[i] = 0.0F;
        if (batch.segments[i] < 0) {
            continue;
        }
        const auto position = static_cast<size_t>(batch.positions[i]);
        const size_t seen =
            window > 0 ? std::min(position + 1, static_cast<size_t>(window)) : position + 1;
        std::fill(line + (i + 1 - seen), line + i + 1, 0.0F);
    }
}

}  // namespace lumi
