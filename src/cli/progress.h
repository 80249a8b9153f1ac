// Progress of long work on stderr: a bar that redraws itself on a terminal, plain lines elsewhere,
// JSON lines on stdout when machines read along.
#pragma once

#include "train/trainer.h"

#include <chrono>
#include <string>

namespace lumi {

enum class ProgressStyle : unsigned char { bar, lines, json };

// bar on a terminal, lines elsewhere; json when asked.
ProgressStyle progress_style(bool json);

class TrainReporter {
  public:
    explicit TrainReporter(ProgressStyle style) : style_(style) {}
    void report(const TrainProgress & progress);
    void finish();  // leaves the bar's line

  private:
    void print_bar(const TrainProgress & progress);
    void print_line(const TrainProgress & progress);
    void print_validating(double share);
    // A line of the bar's, cut to the terminal's width.
    void redraw(std::string text);
    bool is_time_for_a_line();
    static void print_json(const TrainProgress & progress);
    ProgressStyle style_;
    bool bar_open_ = false;
    std::chrono::steady_clock::time_point last_line_{};
};

// For work that reports a fraction (loading, synth): percent on a terminal, nothing elsewhere.
class FractionReporter {
  public:
    explicit FractionReporter(std::string what);
    void report(double fraction);
    void finish();

  private:
    std::string what_;
    bool active_;
    int last_percent_ = -1;
};

std::string duration_text(double seconds);  // "1:07", "2:03:10"

}  // namespace lumi
