// Sums the losses of rows into losses of samples and of the whole set.
#include "train/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lumi {

Evaluation::Evaluation(std::span<const Sample> samples)
    : samples_(samples), weighted_loss_(samples.size(), 0.0), weight_(samples.size(), 0.0) {
    std::vector<const Sample *> pointers;
    for (const Sample & sample : samples) {
        pointers.push_back(&sample);
    }
    batches_ = pack_samples(pointers);
    // Equal shapes together: each graph is built once.
    std::stable_sort(batches_.begin(), batches_.end(),
                     [](const PackedBatch & a, const PackedBatch & b) {
                         return std::pair(a.tokens.size(), a.rows.size()) >
                                std::pair(b.tokens.size(), b.rows.size());
                     });
}

Status Evaluation::collect(const PackedBatch & batch, const GraphRunner & runner) {
    const std::vector<float> losses = runner.row_losses();
    for (size_t r = 0; r < losses.size(); ++r) {
        if (batch.row_samples[r] < 0) {
            continue;
        }
        const auto sample = static_cast<size_t>(batch.row_samples[r]);
        if (!std::isfinite(losses[r])) {
            return Error{ErrorKind::numeric, "the loss of the sample at line " +
                                                 std::to_string(samples_[sample].line) +
                                                 " is not finite"};
        }
        const auto weight = static_cast<double>(batch.weights[r]);
        weighted_loss_[sample] += weighted_loss(weight, static_cast<double>(losses[r]));
        weight_[sample] += std::abs(weight);
    }
    return {};
}

Result<bool> Evaluation::advance(GraphRunner & runner) {
    if (next_ >= batches_.size()) {
        return true;
    }
    if (!running_) {
        LUMI_TRY(runner.begin(batches_[next_], false, 1.0F));
        running_ = true;
    }
    if (LUMI_TRY(runner.advance())) {
        LUMI_TRY(collect(batches_[next_], runner));
        running_ = false;
        ++next_;
    }
    return next_ >= batches_.size();
}

EvalResult Evaluation::result() const {
    const auto mean = [](double loss, double weight) { return weight > 0 ? loss / weight : 0.0; };
    EvalResult result;
    double loss = 0;
    double weight = 0;
    double record_loss = 0;
    double record_weight = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
        if (i == 0 || !same_record(samples_[i - 1], samples_[i])) {
            result.samples.push_back({samples_[i].line, 0, 0.0});
            record_loss = record_weight = 0;
        }
        const auto targets = static_cast<uint64_t>(samples_[i].n_targets());
        loss += weighted_loss_[i];
        weight += weight_[i];
        record_loss += weighted_loss_[i];
        record_weight += weight_[i];
        result.targets += targets;
        result.samples.back().targets += targets;
        result.samples.back().loss = mean(record_loss, record_weight);
    }
    result.loss = mean(loss, weight);
    result.perplexity = std::exp(result.loss);
    return result;
}

Result<EvalResult> evaluate_dataset(const Model & model, const Dataset & dataset,
                                    const LoraView & loras, bool portable,
                                    const CancelToken * cancel) {
    RunnerOptions options;
    options.graph = graph_options(model, portable, false);
    // A caller who can cancel wants to be heard soon.
    options.slice_seconds = cancel != nullptr ? 0.1 : std::numeric_limits<double>::infinity();
    GraphRunner runner(model, loras, {}, options);
    Evaluation evaluation(dataset.samples);
    while (!LUMI_TRY(evaluation.advance(runner))) {
        if (cancel != nullptr && cancel->cancelled()) {
            return Error{ErrorKind::cancelled, "the evaluation was stopped"};
        }
    }
    return evaluation.result();
}

}  // namespace lumi
