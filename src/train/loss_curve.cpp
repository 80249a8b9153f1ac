// Axes with round numbers, three lines and a legend; long runs are thinned to what a screen shows.
#include "train/loss_curve.h"

#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lumi {

namespace {

constexpr double kWidth = 800, kHeight = 450;
constexpr double kLeft = 70, kRight = 20, kTop = 40, kBottom = 55;
constexpr size_t kMostPoints = 800;  // one a pixel

struct Point {
    double step;
    double loss;
};

std::string text_of(const char * format, double x) {
    char text[64];
    std::snprintf(text, sizeof text, format, x);
    return text;
}

// 1, 2 or 5 times a power of ten, so that some five steps span the range.
double round_step(double range) {
    const double rough = std::max(range, 1e-9) / 5;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

// Means of equal stretches when there are more points than pixels.
std::vector<Point> thinned(const std::vector<Point> & points) {
    const size_t stretch = (points.size() + kMostPoints - 1) / kMostPoints;
    if (stretch < 2) {
        return points;
    }
    std::vector<Point> out;
    for (size_t begin = 0; begin < points.size(); begin += stretch) {
        const size_t end = std::min(begin + stretch, points.size());
        Point mean{0, 0};
        for (size_t i = begin; i < end; ++i) {
            mean.step += points[i].step / static_cast<double>(end - begin);
            mean.loss += points[i].loss / static_cast<double>(end - begin);
        }
        out.push_back(mean);
    }
    return out;
}

class Chart {
  public:
    Chart(const std::vector<std::vector<Point>> & curves) {
        bool any = false;
        for (const auto & curve : curves) {
            for (const Point & p : curve) {
                low_ = any ? std::min(low_, p.loss) : p.loss;
                high_ = any ? std::max(high_, p.loss) : p.loss;
                last_step_ = std::max(last_step_, p.step);
                any = true;
            }
        }
        tick_ = round_step(high_ - low_);
        low_ = std::floor(low_ / tick_) * tick_;
        high_ = std::max(std::ceil(high_ / tick_) * tick_, low_ + tick_);
    }

    std::string axes() const {
        std::string out;
        for (double loss = low_; loss <= high_ + tick_ / 2; loss += tick_) {
            out += line(kLeft, y(loss), kWidth - kRight, y(loss), "grid");
            out += label(kLeft - 8, y(loss) + 4, "end", text_of("%.4g", loss));
        }
        const double step_tick = std::max(1.0, round_step(last_step_));
        for (double step = 0; step <= last_step_ + 0.5; step += step_tick) {
            out += line(x(step), y(low_), x(step), y(low_) + 5, "axis");
            out += label(x(step), y(low_) + 20, "middle", text_of("%.0f", step));
        }
        out += line(kLeft, kTop, kLeft, y(low_), "axis");
        out += line(kLeft, y(low_), kWidth - kRight, y(low_), "axis");
        out += label((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", "step");
        out += "<text x=\"18\" y=\"" + text_of("%.1f", (kTop + kHeight - kBottom) / 2) +
               "\" text-anchor=\"middle\" transform=\"rotate(-90 18 " +
               text_of("%.1f", (kTop + kHeight - kBottom) / 2) + ")\">loss per token</text>\n";
        return out;
    }

    std::string curve(const std::vector<Point> & points, const char * kind) const {
        std::string path;
        for (const Point & p : points) {
            path += (path.empty() ? "M" : " L") + text_of("%.1f", x(p.step)) + "," +
                    text_of("%.1f", y(p.loss));
        }
        std::string out =
            path.empty() ? "" : "<path class=\"" + std::string(kind) + "\" d=\"" + path + "\"/>\n";
        if (std::string_view(kind) == "validation") {
            for (const Point & p : points) {
                out += "<circle class=\"validation dot\" cx=\"" + text_of("%.1f", x(p.step)) +
                       "\" cy=\"" + text_of("%.1f", y(p.loss)) + "\" r=\"3\"/>\n";
            }
        }
        return out;
    }

    static std::string legend(double left, const char * kind, const char * name) {
        return line(left, 22, left + 24, 22, kind) + label(left + 30, 26, "start", name);
    }

  private:
    double x(double step) const {
        return kLeft + (kWidth - kLeft - kRight) * step / std::max(last_step_, 1.0);
    }
    double y(double loss) const {
        return kTop + (kHeight - kTop - kBottom) * (high_ - loss) / (high_ - low_);
    }
    static std::string line(double x1, double y1, double x2, double y2, const char * kind) {
        return "<line class=\"" + std::string(kind) + "\" x1=\"" + text_of("%.1f", x1) +
               "\" y1=\"" + text_of("%.1f", y1) + "\" x2=\"" + text_of("%.1f", x2) + "\" y2=\"" +
               text_of("%.1f", y2) + "\"/>\n";
    }
    static std::string label(double x, double y, const char * anchor, const std::string & text) {
        return "<text x=\"" + text_of("%.1f", x) + "\" y=\"" + text_of("%.1f", y) +
               "\" text-anchor=\"" + anchor + "\">" + text + "</text>\n";
    }

    double low_ = 0, high_ = 1, tick_ = 1;
    double last_step_ = 1;
};

constexpr const char * kHead =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 450\" width=\"800\" "
    "height=\"450\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#808080\">\n"
    "<title>Loss of a training run</title>\n"
    "<style>path,line{fill:none;stroke-linejoin:round}"
    ".grid{stroke:#808080;stroke-opacity:.25}.axis{stroke:#808080}"
    ".train{stroke:#5b9bd5;stroke-opacity:.45}.smoothed{stroke:#3f7fbf;stroke-width:2}"
    ".validation{stroke:#e07b39;stroke-width:2}.dot{fill:#e07b39}</style>\n";

}  // namespace

std::string loss_curve_svg(const TrainSummary & summary) {
    std::vector<std::vector<Point>> curves(3);  // each step's, smoothed, validation
    double smoothed = 0;
    for (size_t i = 0; i < summary.step_loss.size(); ++i) {
        const double loss = summary.step_loss[i];
        smoothed = i == 0 ? loss : smooth_loss(smoothed, loss);
        curves[0].push_back({static_cast<double>(i + 1), loss});
        curves[1].push_back({static_cast<double>(i + 1), smoothed});
    }
    const auto n_steps = static_cast<double>(summary.step_loss.size());
    for (size_t i = 0; i < summary.epoch_validation_loss.size(); ++i) {
        const double step = static_cast<double>(i) * summary.steps_per_epoch;
        curves[2].push_back({std::min(step, n_steps), summary.epoch_validation_loss[i]});
    }
    curves[0] = thinned(curves[0]);
    curves[1] = thinned(curves[1]);
    const Chart chart(curves);
    std::string svg = kHead + chart.axes();
    svg += chart.curve(curves[0], "train") + chart.curve(curves[1], "smoothed") +
           chart.curve(curves[2], "validation");
    svg += Chart::legend(kLeft, "train", "training, each step") +
           Chart::legend(kLeft + 190, "smoothed", "training, smoothed");
    if (!curves[2].empty()) {
        svg += Chart::legend(kLeft + 380, "validation", "validation");
    }
    return svg + "</svg>\n";
}

}  // namespace lumi
