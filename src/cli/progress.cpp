// How progress is drawn.
#include "cli/progress.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lumi {

namespace {

constexpr int kBarWidth = 24;
constexpr double kLineSeconds = 2.0;

const char * event_name(TrainProgress::Event event) {
    switch (event) {
    case TrainProgress::Event::step:
        return "step";
    case TrainProgress::Event::validation:
        return "validation";
    case TrainProgress::Event::epoch:
        return "epoch";
    case TrainProgress::Event::done:
        return "done";
    default:
        return "slice";
    }
}

}  // namespace

std::string duration_text(double seconds) {
    const long total = std::isfinite(seconds) ? std::lround(std::max(0.0, seconds)) : 0;
    char text[48];
    if (total >= 3600) {
        std::snprintf(text, sizeof(text), "%ld:%02ld:%02ld", total / 3600, total / 60 % 60,
                      total % 60);
    } else {
        std::snprintf(text, sizeof(text), "%ld:%02ld", total / 60, total % 60);
    }
    return text;
}

ProgressStyle progress_style(bool json) {
    if (json) {
        return ProgressStyle::json;
    }
    return isatty(STDERR_FILENO) != 0 ? ProgressStyle::bar : ProgressStyle::lines;
}

void TrainReporter::report(const TrainProgress & progress) {
    if (progress.event == TrainProgress::Event::slice) {
        return;
    }
    if (style_ == ProgressStyle::json) {
        print_json(progress);
        return;
    }
    if (progress.event == TrainProgress::Event::validation) {
        finish();
        std::fprintf(stderr, "epoch %d: validation loss %.4f\n", progress.epoch, progress.loss);
        return;
    }
    if (progress.event == TrainProgress::Event::epoch) {
        finish();
        std::fprintf(stderr, "epoch %d: training loss %.4f\n", progress.epoch, progress.loss);
        return;
    }
    if (progress.event != TrainProgress::Event::step) {
        return;
    }
    if (style_ == ProgressStyle::bar) {
        print_bar(progress);
    } else {
        print_line(progress);
    }
}

void TrainReporter::print_bar(const TrainProgress & p) {
    const int filled = p.total_steps > 0 ? kBarWidth * p.step / p.total_steps : 0;
    std::string bar(static_cast<size_t>(std::clamp(filled, 0, kBarWidth)), '#');
    bar.resize(kBarWidth, '.');
    std::fprintf(stderr, "\r[%s] %d/%d loss %.4f (%.4f) norm %.2f %.0f tok/s ETA %s \x1b[K",
                 bar.c_str(), p.step, p.total_steps, p.loss, p.smoothed_loss, p.grad_norm,
                 p.tokens_per_second, duration_text(p.eta_seconds).c_str());
    std::fflush(stderr);
    bar_open_ = true;
}

void TrainReporter::print_line(const TrainProgress & p) {
    const auto now = std::chrono::steady_clock::now();
    if (p.step != p.total_steps &&
        std::chrono::duration<double>(now - last_line_).count() < kLineSeconds) {
        return;
    }
    last_line_ = now;
    std::fprintf(
        stderr, "step %d/%d epoch %d loss %.4f smoothed %.4f norm %.3f lr %.2e %.0f tok/s ETA %s\n",
        p.step, p.total_steps, p.epoch, p.loss, p.smoothed_loss, p.grad_norm, p.learning_rate,
        p.tokens_per_second, duration_text(p.eta_seconds).c_str());
}

void TrainReporter::print_json(const TrainProgress & p) {
    const nlohmann::json line = {{"event", event_name(p.event)},
                                 {"step", p.step},
                                 {"total_steps", p.total_steps},
                                 {"epoch", p.epoch},
                                 {"loss", p.loss},
                                 {"smoothed_loss", p.smoothed_loss},
                                 {"grad_norm", p.grad_norm},
                                 {"learning_rate", p.learning_rate},
                                 {"tokens", p.tokens_done},
                                 {"targets", p.targets_done},
                                 {"tokens_per_second", p.tokens_per_second},
                                 {"seconds", p.seconds},
                                 {"eta_seconds", p.eta_seconds}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
}

void TrainReporter::finish() {
    if (bar_open_) {
        std::fprintf(stderr, "\n");
        bar_open_ = false;
    }
}

FractionReporter::FractionReporter(std::string what)
    : what_(std::move(what)), active_(isatty(STDERR_FILENO) != 0) {}

void FractionReporter::report(double fraction) {
    const int percent = static_cast<int>(fraction * 100.0);
    if (!active_ || percent == last_percent_) {
        return;
    }
    last_percent_ = percent;
    std::fprintf(stderr, "\r%s %d%%\x1b[K", what_.c_str(), percent);
    std::fflush(stderr);
}

void FractionReporter::finish() {
    if (active_ && last_percent_ >= 0) {
        std::fprintf(stderr, "\r\x1b[K");
        std::fflush(stderr);
    }
    last_percent_ = -1;
}

}  // namespace lumi
