// What training options may be, and the learning rate over time.
#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace lumi {

namespace {

std::string number_text(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%g", x);
    return text;
}

Error out_of_range(const char * name, double found, const std::string & allowed) {
    return {ErrorKind::invalid_argument, std::string("training option ") + name + " is " +
                                             number_text(found) + ", allowed is " + allowed};
}

struct Range {
    const char * name;
    double value;
    double low;
    double high;
};

}  // namespace

Status TrainOptions::check() const {
    const Range ranges[] = {
        {"rank", static_cast<double>(rank), 1, 1024},
        {"dropout", static_cast<double>(dropout), 0, 0.95},
        {"epochs", static_cast<double>(epochs), 1, 100000},
        {"max_steps", static_cast<double>(max_steps), 0, 1e9},
        {"warmup_steps", static_cast<double>(warmup_steps), 0, 1e9},
        {"beta1", static_cast<double>(beta1), 0, 0.99999},
        {"beta2", static_cast<double>(beta2), 0, 0.999999},
        {"weight_decay", static_cast<double>(weight_decay), 0, 1},
        {"clip_norm", static_cast<double>(clip_norm), 0, 1e9},
        {"batch_samples", static_cast<double>(batch_samples), 1, 65536},
        {"early_stop_epochs", static_cast<double>(early_stop_epochs), 0, 100000},
        {"window_tokens", static_cast<double>(window_tokens), 16, 1 << 20},
    };
    for (const Range & r : ranges) {
        if (!(r.value >= r.low && r.value <= r.high)) {
            return out_of_range(r.name, r.value, number_text(r.low) + " to " + number_text(r.high));
        }
    }
    const std::pair<const char *, double> positive[] = {
        {"alpha", static_cast<double>(alpha)},
        {"learning_rate", static_cast<double>(learning_rate)},
        {"epsilon", static_cast<double>(epsilon)},
        {"slice_seconds", slice_seconds},
    };
    for (const auto & [name, value] : positive) {
        if (!(value > 0.0) || !std::isfinite(value)) {
            return out_of_range(name, value, "a finite number above 0");
        }
    }
    return {};
}

double learning_rate_at(const TrainOptions & options, int step, int total_steps) {
    const auto rate = static_cast<double>(options.learning_rate);
    const int warmup = std::min(options.warmup_steps, std::max(total_steps / 2, 0));
    if (step < warmup) {
        return rate * (step + 1) / warmup;
    }
    const double progress = static_cast<double>(step - warmup) / std::max(total_steps - warmup, 1);
    switch (options.schedule) {
    case LrSchedule::constant:
        return rate;
    case LrSchedule::linear:
        return rate * (1.0 - progress);
    case LrSchedule::cosine:
        return rate * 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    }
    return rate;
}

}  // namespace lumi
