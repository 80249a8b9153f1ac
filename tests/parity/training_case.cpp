// See training_case.h.
#include "parity/training_case.h"

#include "train/parameters.h"
#include "train/transposed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <numeric>

namespace lumi::test {
namespace {

AdapterData adapter_of(const Reference & reference) {
    AdapterData adapter;
    for (const auto & [name, a] : reference.tensors) {
        const size_t end = name.rfind(".lora_a");
        LoraMatrixPair pair;
        if (end == std::string::npos || name.rfind("grad.", 0) == 0) {
            continue;
        }
        const std::string weight = name.substr(0, end);
        EXPECT_TRUE(parse_module_weight_name(weight, pair.layer, pair.module)) << weight;
        pair.n_in = reference.shapes.at(name)[0];
        pair.rank = static_cast<int>(reference.shapes.at(name)[1]);
        pair.n_out = reference.shapes.at(weight + ".lora_b")[1];
        pair.a = a;
        pair.b = reference.tensors.at(weight + ".lora_b");
        adapter.alpha = reference.scale * static_cast<float>(pair.rank);
        adapter.pairs.push_back(std::move(pair));
    }
    return adapter;
}

std::vector<PackedBatch> batches_of(const Dataset & dataset, const GradientRun & options) {
    std::vector<const Sample *> all;
    std::vector<PackedBatch> batches;
    for (const Sample & sample : dataset.samples) {
        all.push_back(&sample);
        if (!options.packed) {
            batches.push_back(pack_samples(std::span<const Sample * const>(&all.back(), 1))[0]);
        }
    }
    if (options.packed) {
        batches = pack_samples(all);
        EXPECT_EQ(batches.size(), 1U);
    }
    for (PackedBatch & batch : batches) {
        if (options.damage_masks) {
            std::iota(batch.positions.begin(), batch.positions.end(), 0);
        }
    }
    return batches;
}

// One accumulator as the runner left it.
Floats gradient_of(const ggml_tensor * t, float loss_scale) {
    Floats values(static_cast<size_t>(ggml_nelements(t)));
    ggml_backend_tensor_get(t, values.data(), 0, values.size() * sizeof(float));
    for (float & x : values) {
        x /= loss_scale;
    }
    return values;
}

}  // namespace

TrainingCase load_training_case(const std::string & name, const std::string & device) {
    TrainingCase c;
    c.name = name;
    c.tiny = load_tiny(name, device);
    c.adapter = adapter_of(load_reference(name));
    const Samples samples = load_samples(name + "-samples.gguf");
    c.loss_sum = samples.loss_sum;
    size_t start = 0;
    for (const int32_t length : samples.lengths) {
        Sample sample;
        const auto at = static_cast<std::ptrdiff_t>(start);
        sample.tokens.assign(samples.tokens.begin() + at, samples.tokens.begin() + at + length);
        sample.target_weight.assign(samples.weights.begin() + at,
                                    samples.weights.begin() + at + length);
        sample.line = static_cast<int>(c.dataset.samples.size()) + 1;
        c.dataset.samples.push_back(std::move(sample));
        start += static_cast<size_t>(length);
    }
    for (const auto & [key, values] : samples.tensors) {
        c.gradients[key.substr(std::string("grad.").size())] = values;
    }
    return c;
}

GradientErrors gradient_errors(const TrainingCase & c, const GradientRun & options) {
    constexpr float kLossScale = 256.0F;
    GradientErrors errors;
    const Model & model = *c.tiny.model;
    const auto parameters = std::move(TrainParameters::create(c.adapter, model.device()).value());
    RunnerOptions runner_options;
    runner_options.graph = graph_options(model, options.portable, options.recompute);
    runner_options.slice_seconds = 10;  // one slice
    std::unique_ptr<TransposedWeights> transposed;
    if (options.portable || !model.device().is_cpu()) {
        transposed = std::move(TransposedWeights::create(model, 0).value());
        runner_options.graph.transposed = [&](const ggml_tensor * w) {
            return transposed->find(w);
        };
    }
    GraphRunner runner(model, parameters->view(), parameters->pairs(), runner_options);
    double loss = 0;
    for (const PackedBatch & batch : batches_of(c.dataset, options)) {
        const Status begun = runner.begin(batch, true, kLossScale);
        EXPECT_TRUE(begun.ok()) << (begun.ok() ? "" : begun.error().message);
        while (begun.ok() && !runner.advance().value()) {
        }
        loss += runner.loss_sum();
    }
    errors.graphs = runner.graphs_built();
    errors.loss = std::abs(loss / c.loss_sum - 1.0);
    for (const TrainablePair & pair : parameters->pairs()) {
        for (const auto & [lora, gradient] :
             {std::pair(pair.lora.a, pair.grad_a), std::pair(pair.lora.b, pair.grad_b)}) {
            const double error =
                relative_l2(gradient_of(gradient, kLossScale), c.gradients.at(lora->name));
            ++errors.tensors;
            if (error > errors.worst) {
                errors.worst = error;
                errors.worst_name = lora->name;
            }
        }
    }
    return errors;
}

void print_row(const TrainingCase & c, const char * device, const GradientRun & options,
               const GradientErrors & errors) {
    std::printf("| %s | %s | %s | %s | %zu | %.1e | %.1e |\n", c.name.c_str(), device,
                options.packed ? "packed" : "one by one", options.recompute ? "recomputed" : "kept",
                errors.tensors, errors.worst, errors.loss);
}

}  // namespace lumi::test
