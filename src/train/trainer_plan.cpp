// Checks and measures a training run before anything is allocated.
#include "train/trainer_plan.h"

#include "train/graph_runner.h"

#include <algorithm>
#include <numeric>

namespace lumi {

namespace {

Status check_init(const Config & config, const AdapterData & init) {
    LUMI_TRY(init.check_finite());
    if (init.pairs.empty() || !(init.alpha > 0.0F)) {
        return Error{ErrorKind::invalid_argument,
                     "the adapter to continue from has no pairs or no alpha"};
    }
    for (const LoraMatrixPair & pair : init.pairs) {
        const bool known = pair.layer >= 0 && pair.layer < config.n_layer && pair.rank >= 1;
        const ModuleShape shape =
            known ? module_shape(config, pair.layer, pair.module) : ModuleShape{};
        const auto rank = static_cast<size_t>(std::max(pair.rank, 0));
        if (!known || !module_is_live(config, pair.layer, pair.module) || shape.n_in != pair.n_in ||
            shape.n_out != pair.n_out || pair.a.size() != static_cast<size_t>(pair.n_in) * rank ||
            pair.b.size() != static_cast<size_t>(pair.n_out) * rank) {
            return Error{ErrorKind::invalid_argument,
                         "the adapter to continue from does not fit this model at " +
                             module_weight_name(pair.layer, pair.module)};
        }
    }
    return {};
}

int padded(int n) {
    return (n + kPaddingUnit - 1) / kPaddingUnit * kPaddingUnit;
}

// The sum of the n largest.
int64_t sum_of_largest(std::vector<int> values, int n) {
    const size_t count = std::min(values.size(), static_cast<size_t>(n));
    std::partial_sort(values.begin(), values.begin() + static_cast<long>(count), values.end(),
                      std::greater<>());
    return std::accumulate(values.begin(), values.begin() + static_cast<long>(count), int64_t{0});
}

}  // namespace

Result<AdapterData> starting_adapter(const Model & model, const TrainOptions & options,
                                     const AdapterData * init) {
    if (init != nullptr) {
        LUMI_TRY(check_init(model.config(), *init));
        return *init;
    }
    const int last =
        options.targets.last_layer < 0 ? model.config().n_layer - 1 : options.targets.last_layer;
    if (options.targets.first_layer < 0 || last >= model.config().n_layer ||
        options.targets.first_layer > last) {
        return Error{ErrorKind::invalid_argument,
                     "targets: layers " + std::to_string(options.targets.first_layer) + " to " +
                         std::to_string(last) + ", allowed are 0 to " +
                         std::to_string(model.config().n_layer - 1)};
    }
    AdapterData adapter = make_adapter(model.config(), model.plain_weights(), options.targets,
                                       options.rank, options.alpha, options.seed);
    if (adapter.pairs.empty()) {
        return Error{ErrorKind::invalid_argument, "targets: no weight of this model is adapted"};
    }
    return adapter;
}

Status check_samples(const Model & model, const Dataset & dataset, const TrainOptions & options,
                     const char * what) {
    const int limit = model.config().n_ctx_train;
    if (limit > 0 && options.window_tokens > limit) {
        return Error{ErrorKind::invalid_argument,
                     "the training window is " + std::to_string(options.window_tokens) +
                         " tokens, this model's context is " + std::to_string(limit)};
    }
    for (const Sample & sample : dataset.samples) {
        const auto where = std::string(what) + " sample at line " + std::to_string(sample.line);
        if (sample.tokens.size() > static_cast<size_t>(options.window_tokens)) {
            return Error{ErrorKind::invalid_argument, where + " has " +
                                                          std::to_string(sample.tokens.size()) +
                                                          " tokens, the training window is " +
                                                          std::to_string(options.window_tokens)};
        }
        if (sample.target_weight.size() != sample.tokens.size() || sample.n_targets() == 0) {
            return Error{ErrorKind::invalid_argument, where + " has no token to learn"};
        }
        for (const int32_t token : sample.tokens) {
            if (token < 0 || token >= model.config().n_vocab) {
                return Error{ErrorKind::invalid_argument,
                             where + " holds token " + std::to_string(token) +
                                 ", the vocabulary has " + std::to_string(model.config().n_vocab)};
            }
        }
    }
    return {};
}

GraphShape largest_run(std::span<const Sample> samples, int batch_samples) {
    std::vector<int> lengths;
    std::vector<int> targets;
    int longest = 1;
    for (const Sample & sample : samples) {
        lengths.push_back(static_cast<int>(sample.tokens.size()));
        targets.push_back(sample.n_targets());
        longest = std::max(longest, lengths.back());
    }
    const int64_t most = std::max(kPackTokens, longest);
    const auto tokens = static_cast<int>(std::min(most, sum_of_largest(lengths, batch_samples)));
    const auto rows =
        static_cast<int>(std::min<int64_t>(tokens, sum_of_largest(targets, batch_samples)));
    const int n_tokens = padded(std::max(tokens, 1));
    return {n_tokens, std::min(padded(std::max(rows, 1)), n_tokens), n_tokens, n_tokens};
}

int lowest_layer(const AdapterData & adapter) {
    int lowest = adapter.pairs.empty() ? 0 : adapter.pairs.front().layer;
    for (const LoraMatrixPair & pair : adapter.pairs) {
        lowest = std::min(lowest, pair.layer);
    }
    return lowest;
}

bool needs_transposed(const Model & model, const TrainOptions & options) {
    return options.portable || !model.device().is_cpu();
}

Result<MemoryPlan> plan_training(const Model & model, const TrainOptions & options,
                                 const AdapterData & start, GraphShape shape) {
    MemoryPlan plan;
    const auto parameters = TrainParameters::describe(start);
    RunnerOptions runner_options;
    runner_options.graph = graph_options(model, options.portable, options.recompute);
    runner_options.graph.dropout = options.dropout;
    std::unique_ptr<TransposedWeights> transposed;
    if (needs_transposed(model, options)) {
        transposed = TransposedWeights::describe(model, lowest_layer(start));
        plan.add("transposed weights", transposed->bytes());
        runner_options.graph.transposed = [&](const ggml_tensor * w) {
            return transposed->find(w);
        };
    }
    const uint64_t flat = parameters->flat_bytes();
    plan.add("adapter (" + std::to_string(start.n_parameters()) + " numbers) and its gradients",
             2 * flat);
    plan.add("AdamW's two moments", 2 * flat);
    plan.add("last good and best adapter", 2 * flat);
    GraphRunner runner(model, parameters->view(), parameters->pairs(), runner_options);
    const uint64_t learning = LUMI_TRY(runner.measure(shape, true));
    const uint64_t evaluating = LUMI_TRY(runner.measure(shape, false));
    plan.add("activations of a run, " + std::to_string(shape.n_tokens) + " tokens, " +
                 std::to_string(shape.n_rows) + " supervised",
             std::max(learning, evaluating));
    return plan;
}

Status enforce_plan(const Model & model, const MemoryPlan & plan) {
    uint64_t limit = 0;
    if (!model.device().is_cpu()) {
        for (const DeviceInfo & info : list_devices()) {
            limit = info.name == model.device().name() ? info.free_bytes : limit;
        }
    }
    return plan.enforce(limit, "a lower rank, fewer targets, a smaller training window");
}

Result<MemoryPlan> Trainer::plan(const Model & model, const TrainOptions & options,
                                 int longest_sample, int most_targets) {
    LUMI_TRY(options.check());
    const AdapterData start = LUMI_TRY(starting_adapter(model, options, nullptr));
    const int n_tokens = padded(std::clamp(longest_sample, 1, options.window_tokens));
    const int n_rows = std::min(padded(std::max(most_targets, 1)), n_tokens);
    return plan_training(model, options, start, {n_tokens, n_rows, n_tokens, n_tokens});
}

}  // namespace lumi
