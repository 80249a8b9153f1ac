// How progress is drawn.
#include "cli/progress.h"

#include "device/memory_plan.h"
#include "train/metrics.h"

#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lumi {

namespace {

constexpr int kBarWidth = 24;
constexpr double kLineSeconds = 2.0;

size_t terminal_width() {
    constexpr size_t kUsual = 80;
    winsize size = {};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

// "12/300 epoch 1 loss 1.2345 (1.3456) lr 1.0e-04 norm 0.52 123 targets/s 1.20 GiB ETA 1:02"
std::string step_text(const TrainProgress & p) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "%d/%d epoch %d loss %.4f (%.4f) lr %.1e norm %.3g %.0f targets/s %s ETA %s", p.step,
                  p.total_steps, p.epoch, p.loss, p.smoothed_loss, p.learning_rate, p.grad_norm,
                  p.targets_per_second, bytes_text(p.memory_bytes).c_str(),
                  duration_text(p.eta_seconds).c_str());
    return text;
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
        if (progress.validated > 0) {
            print_validating(progress.validated);
        }
        return;
    }
    if (style_ == ProgressStyle::json) {
        print_json(progress);
        return;
    }
    if (progress.event == TrainProgress::Event::validation) {
        finish();
        const std::string when =
            progress.epoch > 0 ? "epoch " + std::to_string(progress.epoch) : "before training";
        std::fprintf(stderr, "%s: validation loss %.4f\n", when.c_str(), progress.loss);
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
    redraw("[" + bar + "] " + step_text(p));
}

void TrainReporter::redraw(std::string text) {
    text.resize(std::min(text.size(), terminal_width() - 1));
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
    std::fflush(stderr);
    bar_open_ = true;
}

bool TrainReporter::is_time_for_a_line() {
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration<double>(now - last_line_).count() < kLineSeconds) {
        return false;
    }
    last_line_ = now;
    return true;
}

void TrainReporter::print_validating(double share) {
    const std::string text = "validating " + std::to_string(static_cast<int>(share * 100.0)) + " %";
    if (style_ == ProgressStyle::bar) {
        redraw(text);
    } else if (style_ == ProgressStyle::lines && is_time_for_a_line()) {
        std::fprintf(stderr, "%s\n", text.c_str());
    }
}

void TrainReporter::print_line(const TrainProgress & p) {
    if (is_time_for_a_line() || p.step == p.total_steps) {
        std::fprintf(stderr, "step %s\n", step_text(p).c_str());
    }
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
                                 {"targets_per_second", p.targets_per_second},
                                 {"memory_bytes", p.memory_bytes},
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
