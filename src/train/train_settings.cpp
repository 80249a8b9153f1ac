// Numbers are written so that they read back the same, because equal text must mean equal runs.
#include "train/train_settings.h"

#include "base/sha256.h"

#include <charconv>

namespace lumi {

namespace {

constexpr size_t kShownDigits = 16;  // of a hash

template <typename T> std::string shortest(T value) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    return std::string(text, end);
}

template <typename T> void add_hash(std::string & digests, const std::vector<T> & values) {
    digests += sha256_hex(std::as_bytes(std::span(values)));
}

std::string short_hash(const std::string & digests) {
    return sha256_hex(std::as_bytes(std::span(digests))).substr(0, kShownDigits);
}

std::string adapter_identity(const AdapterData & adapter) {
    std::string digests;
    for (const LoraMatrixPair & pair : adapter.pairs) {
        digests += module_weight_name(pair.layer, pair.module);
        add_hash(digests, pair.a);
        add_hash(digests, pair.b);
    }
    return "sha256 " + short_hash(digests);
}

const char * schedule_name(LrSchedule schedule) {
    return schedule == LrSchedule::constant ? "constant"
           : schedule == LrSchedule::linear ? "linear"
                                            : "cosine";
}

}  // namespace

std::string exact_number(double value) {
    return shortest(value);
}

std::string exact_number(float value) {
    return shortest(value);
}

TrainSettings settings_of(const TrainOptions & o, const AdapterData & start, bool init) {
    TrainSettings s;
    s["rank"] = rank_text(start);
    s["alpha"] = exact_number(init ? start.alpha : o.alpha);
    s["rslora"] = !init && o.rank_stabilised ? "yes" : "no";
    s["dropout"] = exact_number(o.dropout);
    s["targets"] = targets_text(start);
    s["init_from"] = init ? adapter_identity(start) : "none";
    s["seed"] = std::to_string(o.seed);
    s["epochs"] = std::to_string(o.epochs);
    s["max_steps"] = std::to_string(o.max_steps);
    s["learning_rate"] = exact_number(o.learning_rate);
    s["schedule"] = schedule_name(o.schedule);
    s["warmup_steps"] = std::to_string(o.warmup_steps);
    s["beta1"] = exact_number(o.beta1);
    s["beta2"] = exact_number(o.beta2);
    s["epsilon"] = exact_number(o.epsilon);
    s["weight_decay"] = exact_number(o.weight_decay);
    s["clip_norm"] = exact_number(o.clip_norm);
    s["batch_samples"] = std::to_string(o.batch_samples);
    s["packing"] = o.packing ? "yes" : "no";
    s["window_tokens"] = std::to_string(o.window_tokens);
    s["early_stop_epochs"] = std::to_string(o.early_stop_epochs);
    return s;
}

std::string dataset_identity(const Dataset & dataset) {
    if (dataset.samples.empty()) {
        return "none";
    }
    std::string digests;
    for (const Sample & sample : dataset.samples) {
        add_hash(digests, sample.tokens);
        add_hash(digests, sample.target_weight);
    }
    return std::to_string(dataset.samples.size()) + " samples, " +
           std::to_string(dataset.n_tokens()) + " tokens, sha256 " + short_hash(digests);
}

Status check_same_settings(const TrainSettings & was, const TrainSettings & is) {
    const auto value_in = [](const TrainSettings & settings, const std::string & name) {
        const auto found = settings.find(name);
        return found == settings.end() ? std::string("not there") : found->second;
    };
    TrainSettings names = was;
    names.insert(is.begin(), is.end());
    std::string differences;
    for (const auto & [name, ignored] : names) {
        const std::string before = value_in(was, name);
        const std::string now = value_in(is, name);
        if (before != now) {
            differences += differences.empty() ? "" : "; ";
            differences.append(name).append(" was ").append(before).append(", is ").append(now);
        }
    }
    if (differences.empty()) {
        return {};
    }
    return Error{ErrorKind::invalid_argument,
                 differences +
                     ". A run is resumed with what it began with; to go on with other data or "
                     "settings, start a run from its adapter"};
}

}  // namespace lumi
