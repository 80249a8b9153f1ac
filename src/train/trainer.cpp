// Setting up a training run, and the thin public face over its phases (trainer_phases.cpp).
#include "train/trainer.h"

#include "base/log.h"
#include "train/checkpoint.h"
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
                                                 const AdapterData * init,
                                                 const Checkpoint * resume) {
    RunSetup setup =
        LUMI_TRY(set_up_run(model, train, validation, options, init,
                            resume != nullptr && options.recompute == Recompute::automatic
                                ? std::optional(resume->state.recompute)
                                : std::nullopt));
    log(LogLevel::debug, "memory of the training run:\n" + setup.plan.memory.text());
    LUMI_TRY(enforce_plan(model, setup.plan.memory));
    const AdapterData & start = setup.start;

    auto impl = std::make_unique<Impl>(model, options);
    impl->train = std::move(train);
    impl->validation = std::move(validation);
    RunnerOptions runner_options;
    runner_options.graph = graph_options(model, options.portable, setup.plan.recompute);
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
    LUMI_TRY(impl->runner->reserve(setup.shape));
    impl->good = impl->parameters->download();
    impl->order.resize(impl->train.samples.size());
    std::iota(impl->order.begin(), impl->order.end(), 0);
    impl->run_plan = setup.plan;
    impl->recompute = setup.plan.recompute;
    impl->total_steps = setup.plan.steps;
    impl->summary.steps_per_epoch = setup.plan.steps_per_epoch;
    impl->phase =
        impl->validation.samples.empty() ? Impl::Phase::start_step : Impl::Phase::validate;
    impl->continued = init != nullptr;
    impl->settings = settings_of(options, start, init != nullptr);
    impl->settings["base"] = start.base_name + ", fingerprint " + start.base_fingerprint;
    impl->settings["data"] = dataset_identity(impl->train);
    impl->settings["validation_data"] = dataset_identity(impl->validation);
    log_settings(options, impl->train, impl->validation, impl->total_steps, start.n_parameters(),
                 model.config().n_embd);
    if (resume != nullptr) {
        LUMI_TRY(impl->resume(*resume));
    }
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

const TrainPlan & Trainer::plan() const {
    return impl_->run_plan;
}

bool Trainer::at_boundary() const {
    return impl_->at_boundary();
}

Status Trainer::save_checkpoint(const std::string & path) const {
    return impl_->save(path);
}

Result<AdapterData> Trainer::adapter() const {
    AdapterData adapter = impl_->adapter();
    LUMI_TRY(adapter.check_finite());
    return adapter;
}

}  // namespace lumi
