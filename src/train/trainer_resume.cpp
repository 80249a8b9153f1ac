// A run put aside and taken up again, and what an adapter tells about the run that made it.
#include "train/trainer_impl.h"

#include "base/log.h"
#include "base/utf8.h"
#include "train/checkpoint.h"

namespace lumi {

Status Trainer::Impl::save(const std::string & path) const {
    if (!at_boundary()) {
        return Error{ErrorKind::internal, "a checkpoint can be written between two steps only"};
    }
    TrainState now = *this;
    now.rng = random.state();
    return write_checkpoint(now, settings, *parameters, {good, best}, path);
}

Status Trainer::Impl::resume(const Checkpoint & checkpoint) {
    const std::string where = "cannot resume from " + quoted(checkpoint.file.path(), 1024);
    const Status same = check_same_settings(checkpoint.settings, settings);
    if (!same.ok()) {
        return same.error().within(where);
    }
    const TrainState & then = checkpoint.state;
    if (checkpoint.parameters.size() * sizeof(float) != parameters->flat_bytes() ||
        then.order.size() != train.samples.size() || then.step > total_steps) {
        return Error{ErrorKind::invalid_file, where + ": its tensors are not of this run's sizes"};
    }
    const bool keeps = recompute;
    const TrainSummary fresh = summary;
    static_cast<TrainState &>(*this) = then;
    recompute = keeps;
    summary.steps_per_epoch = fresh.steps_per_epoch;
    summary.steps = step;
    random.restore(then.rng);
    const auto copy = [](std::span<const float> from, ggml_tensor * to) {
        ggml_backend_tensor_set(to, from.data(), 0, from.size_bytes());
    };
    copy(checkpoint.parameters, parameters->weights());
    copy(checkpoint.first_moment, parameters->first_moment());
    copy(checkpoint.second_moment, parameters->second_moment());
    good.assign(checkpoint.good.begin(), checkpoint.good.end());
    best.assign(checkpoint.best.begin(), checkpoint.best.end());
    log(LogLevel::info, "resumed after step " + std::to_string(step));
    return {};
}

Status Trainer::Impl::check_first_gradients() const {
    const std::vector<std::string> idle = parameters->without_gradient();
    const size_t n = parameters->pairs().size();
    if (idle.size() == n && !continued && step_loss != 0.0) {
        return Error{ErrorKind::numeric, "no adapted weight has a gradient at step 1; first of " +
                                             std::to_string(n) + ": " + idle.front()};
    }
    if (!idle.empty()) {
        log(LogLevel::warning,
            std::to_string(idle.size()) + " of " + std::to_string(n) +
                " adapted weights have no gradient at step 1; first: " + idle.front());
    }
    log(LogLevel::debug, std::to_string(n - idle.size()) + " of " + std::to_string(n) +
                             " adapted weights have a gradient at step 1");
    return {};
}

namespace {

std::string list_text(const std::vector<double> & losses) {
    std::string text;
    for (const double loss : losses) {
        text += (text.empty() ? "" : ", ") + exact_number(static_cast<float>(loss));
    }
    return text;
}

}  // namespace

// Nothing in it tells when or how fast: the same run gives the same bytes.
AdapterData Trainer::Impl::adapter() const {
    AdapterData result = parameters->to_adapter(parameters->download());
    const auto set = [&](const std::string & key, const std::string & value) {
        result.record["train." + key] = value;
    };
    for (const auto & [name, value] : settings) {
        set(name, value);
    }
    result.record["version"] = LUMI_VERSION;
    set("steps", std::to_string(step));
    set("samples", std::to_string(train.samples.size()));
    set("tokens", std::to_string(tokens_done));
    set("supervised_tokens", std::to_string(targets_done));
    set("loss", exact_number(static_cast<float>(last_loss)));
    set("losses", list_text(summary.epoch_train_loss));
    if (!summary.epoch_validation_loss.empty()) {
        const double last = summary.epoch_validation_loss.back();
        set("validation_losses", list_text(summary.epoch_validation_loss));
        set("validation_loss", exact_number(static_cast<float>(best.empty() ? last : best_loss)));
    }
    if (summary.kept_epoch > 0) {
        set("kept_epoch", std::to_string(summary.kept_epoch));
    }
    return result;
}

}  // namespace lumi
