// The phases of training: what one slice of each does and which follows.
#include "train/trainer_impl.h"

#include "base/log.h"
#include "device/memory_plan.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace lumi {

namespace {

using Event = TrainProgress::Event;

// Times that a step is done again with half the loss scale before its gradients count as hopeless.
constexpr int kMostRedos = 12;

Error numeric(const std::string & what) {
    return {ErrorKind::numeric, what};
}

}  // namespace

Result<TrainProgress> Trainer::Impl::advance() {
    if (phase == Phase::done) {
        return progress(Event::done, last_loss);
    }
    const bool training = phase != Phase::validate && phase != Phase::verify;
    const auto begin = std::chrono::steady_clock::now();
    Result<TrainProgress> result = run_phase();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    seconds += taken.count();
    train_seconds += training ? taken.count() : 0.0;
    summary.seconds = seconds;
    summary.tokens = tokens_done;
    summary.steps = step;
    if (!result.ok()) {
        return fail(result.error());
    }
    return result;
}

Result<TrainProgress> Trainer::Impl::run_phase() {
    switch (phase) {
    case Phase::validate:
        return validate_slice();
    case Phase::start_step:
        return start_step();
    case Phase::run:
        return run_slice();
    case Phase::end_step:
        return end_step();
    case Phase::end_epoch:
        return end_epoch();
    case Phase::verify:
        return verify_slice();
    case Phase::done:
        break;
    }
    return progress(Event::done, last_loss);
}

Result<TrainProgress> Trainer::Impl::validate_slice() {
    if (stop_requested) {
        evaluation.reset();
        summary.stopped_because = "stopped on request";
        phase = Phase::verify;
        return progress(Event::slice, last_loss);
    }
    if (!evaluation) {
        evaluation.emplace(validation.samples);
    }
    if (!LUMI_TRY(evaluation->advance(*runner))) {
        return progress(Event::slice, last_loss);
    }
    const double loss = evaluation->result().loss;
    evaluation.reset();
    verified = true;
    summary.epoch_validation_loss.push_back(loss);
    // The weights before training are no candidate: somebody asked for training.
    if (step > 0 && (best.empty() || loss < best_loss)) {
        best = parameters->download();
        best_loss = loss;
        best_epoch = epochs_begun();
    }
    phase = step >= total_steps ? Phase::verify : Phase::start_step;
    if (phase == Phase::start_step && stops_early()) {
        summary.stopped_because = "the validation loss has not improved for " +
                                  std::to_string(options.early_stop_epochs) + " epochs";
        phase = Phase::verify;
    }
    return progress(Event::validation, loss);
}

bool Trainer::Impl::stops_early() const {
    return options.early_stop_epochs > 0 && best_epoch > 0 &&
           epochs_begun() - best_epoch >= options.early_stop_epochs;
}

int Trainer::Impl::steps_per_epoch() const {
    const auto batch = static_cast<size_t>(options.batch_samples);
    return static_cast<int>((train.samples.size() + batch - 1) / batch);
}

void Trainer::Impl::shuffle() {
    for (size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[random.below(i)]);
    }
}

std::vector<const Sample *> Trainer::Impl::samples_of_step(int within_epoch) const {
    const auto batch = static_cast<size_t>(options.batch_samples);
    const size_t first = static_cast<size_t>(within_epoch) * batch;
    std::vector<const Sample *> samples;
    for (size_t i = first; i < std::min(first + batch, order.size()); ++i) {
        samples.push_back(&train.samples[static_cast<size_t>(order[i])]);
    }
    return samples;
}

Result<TrainProgress> Trainer::Impl::start_step() {
    if (stop_requested) {
        summary.stopped_because = "stopped on request";
        phase = Phase::verify;
        return progress(Event::slice, last_loss);
    }
    const int within = step % steps_per_epoch();
    if (within == 0) {
        shuffle();
        epoch_loss = 0;
        epoch_weight = 0;
    }
    const std::vector<const Sample *> samples = samples_of_step(within);
    runs =
        pack_samples(samples, options.packing ? std::min(options.window_tokens, kPackTokens) : 1);
    step_weight = total_weight(samples);
    redone = 0;
    LUMI_TRY(begin_runs());
    return progress(Event::slice, last_loss);
}

Status Trainer::Impl::begin_runs() {
    parameters->zero_gradients();
    step_loss = 0;
    next_run = 0;
    phase = Phase::run;
    return begin_run();
}

Status Trainer::Impl::begin_run() {
    return runner->begin(runs[next_run], true, loss_scale.value,
                         dropout_seed(options.seed, static_cast<uint64_t>(step), next_run));
}

Result<TrainProgress> Trainer::Impl::run_slice() {
    if (LUMI_TRY(runner->advance())) {
        step_loss += runner->loss_sum();
        // The loss does not depend on the loss scale: nothing to redo, the weights are bad.
        if (!std::isfinite(step_loss)) {
            return numeric("the training loss is not finite at step " + std::to_string(step + 1));
        }
        if (++next_run < runs.size()) {
            LUMI_TRY(begin_run());
        } else {
            phase = Phase::end_step;
        }
    }
    return progress(Event::slice, last_loss);
}

Result<TrainProgress> Trainer::Impl::redo_step() {
    if (++redone > kMostRedos) {
        return numeric("the gradients are not finite at step " + std::to_string(step + 1) +
                       ", whatever the loss scale");
    }
    loss_scale.gradients_overflowed();
    log(LogLevel::info, "gradients overflowed at step " + std::to_string(step + 1) +
                            ": redone with a loss scale of " + std::to_string(loss_scale.value));
    LUMI_TRY(begin_runs());
    return progress(Event::slice, last_loss);
}

AdamwStep Trainer::Impl::adamw_step(double norm) const {
    AdamwStep s;
    s.learning_rate = static_cast<float>(learning_rate);
    s.beta1 = options.beta1;
    s.beta2 = options.beta2;
    s.epsilon = options.epsilon;
    s.weight_decay = options.weight_decay;
    s.step = step + 1;
    const auto clip = static_cast<double>(options.clip_norm);
    const double clipping = clip > 0 && norm > clip ? clip / norm : 1.0;
    s.gradient_factor =
        static_cast<float>(clipping / (static_cast<double>(loss_scale.value) * step_weight));
    return s;
}

Result<TrainProgress> Trainer::Impl::end_step() {
    const double raw = LUMI_TRY(optimizer->gradient_norm());
    if (!std::isfinite(raw)) {
        return redo_step();
    }
    if (step == 0) {
        LUMI_TRY(check_first_gradients());
    }
    good = parameters->download();
    gradient_norm = raw / (static_cast<double>(loss_scale.value) * step_weight);
    learning_rate = learning_rate_at(options, step, total_steps);
    LUMI_TRY(optimizer->apply(adamw_step(gradient_norm)));
    if (!std::isfinite(LUMI_TRY(optimizer->weight_norm()))) {
        return numeric("step " + std::to_string(step + 1) +
                       " made the adapter's numbers overflow; a lower learning rate helps");
    }
    loss_scale.step_was_clean();
    verified = false;
    last_loss = step_loss / step_weight;
    smoothed = step == 0 ? last_loss : smooth_loss(smoothed, last_loss);
    summary.step_loss.push_back(last_loss);
    epoch_loss += step_loss;
    epoch_weight += step_weight;
    for (const PackedBatch & run : runs) {
        tokens_done += run.n_tokens;
        targets_done += run.n_targets;
    }
    ++step;
    const bool epoch_ends = step % steps_per_epoch() == 0 || step >= total_steps;
    phase = epoch_ends ? Phase::end_epoch : Phase::start_step;
    return progress(Event::step, last_loss);
}

Result<TrainProgress> Trainer::Impl::end_epoch() {
    const double loss = epoch_loss / epoch_weight;
    summary.epoch_train_loss.push_back(loss);
    if (!validation.samples.empty()) {
        phase = Phase::validate;
    } else {
        phase = step >= total_steps ? Phase::verify : Phase::start_step;
    }
    return progress(Event::epoch, loss);
}

// The last update was made from good weights but nothing has run with its result yet.
Result<TrainProgress> Trainer::Impl::verify_slice() {
    if (verified || step == 0) {
        return finish();
    }
    if (!verifying) {
        if (runs.empty()) {  // resumed, and no step since
            runs = pack_samples(samples_of_step(0));
        }
        LUMI_TRY(runner->begin(runs[0], false, 1.0F));
        verifying = true;
    }
    if (LUMI_TRY(runner->advance())) {
        if (!std::isfinite(runner->loss_sum())) {
            return numeric("the loss after the last step is not finite");
        }
        verified = true;
    }
    return progress(Event::slice, last_loss);
}

TrainProgress Trainer::Impl::finish() {
    if (!stop_requested && !best.empty()) {
        parameters->upload(best);
        summary.kept_epoch = best_epoch;
    }
    phase = Phase::done;
    return progress(Event::done, last_loss);
}

Error Trainer::Impl::fail(const Error & why) {
    parameters->upload(good);
    phase = Phase::done;
    summary.stopped_because = why.message;
    return why;
}

double Trainer::Impl::eta_seconds() const {
    if (step == 0) {
        return 0;
    }
    return train_seconds / step * (total_steps - step);
}

TrainProgress Trainer::Impl::progress(Event event, double loss) const {
    TrainProgress p;
    p.event = event;
    p.step = step;
    p.total_steps = total_steps;
    const bool after_a_step = event == Event::step || event == Event::epoch ||
                              event == Event::validation || event == Event::done;
    p.epoch = !after_a_step ? epoch() + 1 : epochs_begun();
    p.loss = loss;
    p.smoothed_loss = smoothed;
    p.grad_norm = gradient_norm;
    p.learning_rate = learning_rate;
    p.tokens_done = tokens_done;
    p.targets_done = targets_done;
    p.seconds = seconds;
    p.eta_seconds = eta_seconds();
    if (train_seconds > 0) {
        p.tokens_per_second = static_cast<double>(tokens_done) / train_seconds;
        p.targets_per_second = static_cast<double>(targets_done) / train_seconds;
    }
    p.memory_bytes = event == Event::slice ? 0 : resident_memory_bytes();
    p.validated = evaluation ? evaluation->done_share() : 0.0;
    return p;
}

}  // namespace lumi
