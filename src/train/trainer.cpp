// Setting up a training run, and the thin public face over its phases (trainer_phases.cpp).
#include "train/trainer.h"

#include "base/log.h"
#include "train/trainer_impl.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace lumi {

namespace {

// Twice the rate that lessons use; good rates fall with the model's width (3e-4 for E4B).
constexpr double kLargestRateTimesWidth = 0.768;

std::string short_number(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", x);
    return text;
}

// cases/training.md L29, L31: what will happen, before it happens.
void log_settings(const TrainOptions & options, const Dataset & train, const Dataset & validation,
                  int total_steps, uint64_t n_parameters, int n_embd) {
    const auto rate = static_cast<double>(options.learning_rate);
    log(LogLevel::info,
        "training: " + std::to_string(train.samples.size()) + " samples, " +
            std::to_string(train.n_tokens()) + " tokens, " + std::to_string(train.n_targets()) +
            " of them targets; validation: " + std::to_string(validation.samples.size()) +
            " samples; " + std::to_string(total_steps) + " steps of up to " +
            std::to_string(options.batch_samples) + " samples; " + std::to_string(n_parameters) +
            " parameters, rate " + short_number(rate) + ", seed " + std::to_string(options.seed));
    const double usual = kLargestRateTimesWidth / n_embd;
    if (rate > usual) {
        log(LogLevel::warning, "learning rate " + short_number(rate) + " is above " +
                                   short_number(usual) +
                                   ", where training of a model this wide often forgets more than "
                                   "it learns");
    }
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::create(const Model & model, Dataset train,
                                                 Dataset validation, const TrainOptions & options,
                                                 const AdapterData * init) {
    LUMI_TRY(options.check());
    if (train.samples.empty()) {
        return Error{ErrorKind::invalid_argument, "no training samples"};
    }
    LUMI_TRY(check_samples(model, train, options, "training"));
    LUMI_TRY(check_samples(model, validation, options, "validation"));
    AdapterData start = LUMI_TRY(starting_adapter(model, options, init));
    start.base_fingerprint = model.file().fingerprint();

    const int batch = options.batch_samples;
    const int everything = static_cast<int>(validation.samples.size());
    GraphShape shape = largest_run(train.samples, batch);
    if (everything > 0) {
        const GraphShape other = largest_run(validation.samples, everything);
        shape.n_tokens = std::max(shape.n_tokens, other.n_tokens);
        shape.n_rows = std::max(shape.n_rows, other.n_rows);
        shape.n_kv_full = shape.n_kv_swa = shape.n_tokens;
    }
    const MemoryPlan plan = LUMI_TRY(plan_training(model, options, start, shape));
    log(LogLevel::debug, "memory of the training run:\n" + plan.text());
    LUMI_TRY(enforce_plan(model, plan));

    auto impl = std::make_unique<Impl>(model, options);
    impl->train = std::move(train);
    impl->validation = std::move(validation);
    RunnerOptions runner_options;
    runner_options.graph = graph_options(model, options.portable, options.recompute);
    runner_options.graph.dropout = options.dropout;
    runner_options.slice_seconds = options.slice_seconds;
    if (needs_transposed(model, options)) {
        impl->transposed = LUMI_TRY(TransposedWeights::create(model, lowest_layer(start)));
        runner_options.graph.transposed = [copies = impl->transposed.get()](const ggml_tensor * w) {
            return copies->find(w);
        };
    }
    impl->parameters = LUMI_TRY(TrainParameters::create(start, model.device()));
    impl->optimizer = LUMI_TRY(Optimizer::create(*impl->parameters, model.device()));
    impl->runner = std::make_unique<GraphRunner>(
        model, impl->parameters->view(), impl->parameters->pairs(), std::move(runner_options));
    impl->good = impl->parameters->download();
    impl->order.resize(impl->train.samples.size());
    std::iota(impl->order.begin(), impl->order.end(), size_t{0});
    impl->total_steps =
        options.max_steps > 0 ? options.max_steps : options.epochs * impl->steps_per_epoch();
    impl->phase =
        impl->validation.samples.empty() ? Impl::Phase::start_step : Impl::Phase::validate;
    log_settings(options, impl->train, impl->validation, impl->total_steps, start.n_parameters(),
                 model.config().n_embd);
    return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

Result<TrainProgress> Trainer::advance() {
    return impl_->advance();
}

bool Trainer::done() const {
    return impl_->phase == Impl::Phase::done;
}

void Trainer::request_stop() {
    impl_->stop_requested = true;
}

const TrainSummary & Trainer::summary() const {
    return impl_->summary;
}

Result<AdapterData> Trainer::adapter() const {
    AdapterData adapter = impl_->adapter();
    LUMI_TRY(adapter.check_finite());
    return adapter;
}

AdapterData Trainer::Impl::adapter() const {
    AdapterData result = parameters->to_adapter(parameters->download());
    const auto set = [&](const char * key, const std::string & value) {
        result.record[std::string("train.") + key] = value;
    };
    set("base_name", model->config().name);
    set("seed", std::to_string(options.seed));
    set("steps", std::to_string(step));
    set("samples", std::to_string(train.samples.size()));
    set("tokens", std::to_string(tokens_done));
    set("dropout", short_number(static_cast<double>(options.dropout)));
    set("learning_rate", short_number(static_cast<double>(options.learning_rate)));
    set("loss", short_number(last_loss));
    if (!summary.epoch_validation_loss.empty()) {
        const double last = summary.epoch_validation_loss.back();
        set("validation_loss", short_number(best.empty() ? last : best_loss));
    }
    return result;
}

}  // namespace lumi
