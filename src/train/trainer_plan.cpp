// Checks and measures a training run before anything is allocated.
#include "train/trainer_plan.h"

#include "base/log.h"
#include "train/graph_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

bool all_zero(const GgufFile & file, const TensorInfo & tensor) {
    const auto to_float = ggml_get_type_traits(tensor.type)->to_float;
    const size_t row_bytes = ggml_row_size(tensor.type, tensor.ne[0]);
    std::vector<float> row(static_cast<size_t>(tensor.ne[0]));
    const std::span<const std::byte> data = file.tensor_data(tensor);
    for (size_t begin = 0; begin + row_bytes <= data.size(); begin += row_bytes) {
        if (to_float != nullptr) {
            to_float(data.data() + begin, row.data(), tensor.ne[0]);
        } else if (tensor.type == GGML_TYPE_F32) {
            std::memcpy(row.data(), data.data() + begin, row_bytes);
        }
        if (std::any_of(row.begin(), row.end(), [](float x) { return x != 0.0F; })) {
            return false;  // the first row, almost always
        }
    }
    return true;
}

// A weight of zeros was probably never trained, and passes nothing on (cases/training.md L6).
void warn_about_zero_weights(const GgufFile & file, const AdapterData & adapter) {
    for (const LoraMatrixPair & pair : adapter.pairs) {
        const std::string name = module_weight_name(pair.layer, pair.module);
        const TensorInfo * tensor = file.find_tensor(name);
        if (tensor != nullptr && all_zero(file, *tensor)) {
            log(LogLevel::warning,
                name + " of the base is all zeros; its adapter may learn nothing");
        }
    }
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
    // Programs that serve adapters scale by alpha / rank; the alpha they are told makes that the
    // rank-stabilised scale.
    const auto rank = static_cast<float>(options.rank);
    const float alpha = options.rank_stabilised ? options.alpha * std::sqrt(rank) : options.alpha;
    AdapterData adapter = make_adapter(model.config(), model.plain_weights(), options.targets,
                                       options.rank, alpha, options.seed);
    if (adapter.pairs.empty()) {
        return Error{ErrorKind::invalid_argument, "targets: no weight of this model is adapted"};
    }
    for (const LoraMatrixPair & pair : adapter.pairs) {
        const int64_t most = largest_rank({pair.n_in, pair.n_out});
        if (pair.rank > most) {
            return Error{ErrorKind::invalid_argument,
                         "training option rank is " + std::to_string(pair.rank) + ", " +
                             module_weight_name(pair.layer, pair.module) + " allows 1 to " +
                             std::to_string(most)};
        }
    }
    warn_about_zero_weights(model.file(), adapter);
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

namespace {

// Samples of validation are packed without regard to batches.
GraphShape shape_of_run(const Dataset & train, const Dataset & validation, int batch_samples) {
    GraphShape shape = largest_run(train.samples, batch_samples);
    if (!validation.samples.empty()) {
        const auto all = static_cast<int>(validation.samples.size());
        const GraphShape other = largest_run(validation.samples, all);
        shape.n_tokens = std::max(shape.n_tokens, other.n_tokens);
        shape.n_rows = std::max(shape.n_rows, other.n_rows);
        shape.n_kv_full = shape.n_kv_swa = shape.n_tokens;
    }
    return shape;
}

// Half of what is free once the model's file, which training reads all of, has its place.
uint64_t memory_for_activations(const Model & model) {
    const uint64_t free = model.device().free_bytes();
    const uint64_t file = model.device().is_cpu() ? model.memory_plan().mapped_bytes() : 0;
    return free > file ? (free - file) / 2 : 0;
}

struct Activations {
    uint64_t bytes = 0;
    bool recompute = true;
};

class ActivationPlanner {
  public:
    ActivationPlanner(const Model & model, const TrainOptions & options,
                      const TrainParameters & parameters, const TransposedWeights * transposed)
        : model_(model), options_(options), parameters_(parameters), transposed_(transposed) {}

    Result<Activations> choose(const GraphShape & shape, std::optional<bool> recompute) const {
        if (!recompute && options_.recompute != Recompute::automatic) {
            recompute = options_.recompute == Recompute::on;
        }
        if (!recompute) {
            const uint64_t kept = LUMI_TRY(measure(shape, false));
            if (kept <= memory_for_activations(model_)) {
                return Activations{kept, false};
            }
            recompute = true;
        }
        return Activations{LUMI_TRY(measure(shape, *recompute)), *recompute};
    }

  private:
    Result<uint64_t> measure(const GraphShape & shape, bool recompute) const {
        RunnerOptions runner_options;
        runner_options.graph = graph_options(model_, options_.portable, recompute);
        runner_options.graph.dropout = options_.dropout;
        if (transposed_ != nullptr) {
            runner_options.graph.transposed = [this](const ggml_tensor * w) {
                return transposed_->find(w);
            };
        }
        GraphRunner runner(model_, parameters_.view(), parameters_.pairs(), runner_options);
        const uint64_t learning = LUMI_TRY(runner.measure(shape, true));
        const uint64_t evaluating = LUMI_TRY(runner.measure(shape, false));
        return std::max(learning, evaluating);
    }

    const Model & model_;
    const TrainOptions & options_;
    const TrainParameters & parameters_;
    const TransposedWeights * transposed_;
};

Status plan_memory(const Model & model, const TrainOptions & options, std::optional<bool> recompute,
                   RunSetup & setup) {
    MemoryPlan & plan = setup.plan.memory;
    const auto parameters = TrainParameters::describe(setup.start);
    std::unique_ptr<TransposedWeights> transposed;
    if (needs_transposed(model, options)) {
        transposed = TransposedWeights::describe(model, lowest_layer(setup.start));
        plan.add("transposed weights", transposed->bytes());
    }
    const uint64_t flat = parameters->flat_bytes();
    plan.add("adapter (" + std::to_string(setup.plan.n_parameters) + " numbers) and its gradients",
             2 * flat);
    plan.add("AdamW's two moments", 2 * flat);
    plan.add("last good and best adapter", 2 * flat);
    const Activations chosen =
        LUMI_TRY(ActivationPlanner(model, options, *parameters, transposed.get())
                     .choose(setup.shape, recompute));
    setup.plan.recompute = chosen.recompute;
    plan.add("activations of " + std::to_string(setup.shape.n_tokens) + " tokens, " +
                 std::to_string(setup.shape.n_rows) + " supervised, " +
                 (chosen.recompute ? "layers recomputed" : "all layers kept"),
             chosen.bytes);
    return {};
}

}  // namespace

Result<RunSetup> set_up_run(const Model & model, const Dataset & train, const Dataset & validation,
                            const TrainOptions & options, const AdapterData * init,
                            std::optional<bool> recompute) {
    LUMI_TRY(options.check());
    if (train.samples.empty()) {
        return Error{ErrorKind::invalid_argument, "no training samples"};
    }
    if (options.early_stop_epochs > 0 && validation.samples.empty()) {
        return Error{ErrorKind::invalid_argument,
                     "training option early_stop_epochs is " +
                         std::to_string(options.early_stop_epochs) +
                         ", but there are no validation samples to judge by"};
    }
    LUMI_TRY(check_samples(model, train, options, "training"));
    LUMI_TRY(check_samples(model, validation, options, "validation"));
    RunSetup setup;
    setup.start = LUMI_TRY(starting_adapter(model, options, init));
    setup.start.base_fingerprint = model.file().fingerprint();
    setup.start.base_name = model.config().name;
    setup.shape = shape_of_run(train, validation, options.packing ? options.batch_samples : 1);
    const auto batch = static_cast<size_t>(options.batch_samples);
    setup.plan.steps_per_epoch = static_cast<int>((train.samples.size() + batch - 1) / batch);
    const int64_t steps = int64_t{options.epochs} * setup.plan.steps_per_epoch;
    setup.plan.steps = options.max_steps > 0 ? options.max_steps
                                             : static_cast<int>(std::min<int64_t>(steps, 1 << 30));
    setup.plan.n_parameters = setup.start.n_parameters();
    setup.plan.n_tensors = 2 * setup.start.pairs.size();
    LUMI_TRY(plan_memory(model, options, recompute, setup));
    return setup;
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

Result<TrainPlan> Trainer::plan(const Model & model, const Dataset & train,
                                const Dataset & validation, const TrainOptions & options,
                                const AdapterData * init) {
    return LUMI_TRY(set_up_run(model, train, validation, options, init)).plan;
}

}  // namespace lumi
