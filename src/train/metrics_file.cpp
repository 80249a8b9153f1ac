// Lines are written whole and flushed, so that others can read along and a kill loses at most one.
#include "train/metrics.h"

#include "base/file.h"
#include "base/utf8.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace lumi {

namespace {

constexpr uint64_t kMaxOldBytes = uint64_t{1} << 30U;

// The columns, in the order of the CSV; JSON has the same names.
using Fields = std::vector<std::pair<const char *, nlohmann::json>>;

Fields fields_of(const TrainProgress & p) {
    return {{"step", p.step},
            {"event", event_name(p.event)},
            {"total_steps", p.total_steps},
            {"epoch", p.epoch},
            {"loss", p.loss},
            {"smoothed_loss", p.smoothed_loss},
            {"grad_norm", p.grad_norm},
            {"learning_rate", p.learning_rate},
            {"tokens", p.tokens_done},
            {"supervised_tokens", p.targets_done},
            {"tokens_per_second", p.tokens_per_second},
            {"supervised_tokens_per_second", p.targets_per_second},
            {"memory_bytes", p.memory_bytes},
            {"seconds", p.seconds},
            {"eta_seconds", p.eta_seconds}};
}

std::string json_line(const TrainProgress & p) {
    nlohmann::ordered_json line;
    for (const auto & [name, value] : fields_of(p)) {
        line[name] = value;
    }
    return line.dump() + "\n";
}

std::string csv_line(const TrainProgress & p) {
    std::string line;
    for (const auto & [name, value] : fields_of(p)) {
        line += (line.empty() ? "" : ",") +
                (value.is_string() ? value.get<std::string>() : value.dump());
    }
    return line + "\n";
}

std::string csv_header() {
    std::string line;
    for (const auto & [name, value] : fields_of({})) {
        line += (line.empty() ? "" : ",") + std::string(name);
    }
    return line + "\n";
}

// The step a line tells of; -1 for the header and for a line that was cut off.
int step_of_line(std::string_view line, bool csv) {
    int step = -1;
    char end = 0;
    const std::string text(line);
    const int n = std::sscanf(text.c_str(), csv ? "%d%c" : "{\"step\":%d%c", &step, &end);
    const bool whole = n == 2 && end == ',' && (csv || text.ends_with('}'));
    return whole ? step : -1;
}

// What an earlier run wrote and the resumed one will not write again.
std::string lines_through(const std::string & old, bool csv, int step) {
    std::string kept = csv ? csv_header() : "";
    for (size_t begin = 0; begin < old.size();) {
        const size_t end = old.find('\n', begin);
        if (end == std::string::npos) {
            break;
        }
        const std::string line = old.substr(begin, end - begin);
        const int at = step_of_line(line, csv);
        if (at >= 0 && at <= step) {
            kept += line + "\n";
        }
        begin = end + 1;
    }
    return kept;
}

class MetricsFile : public MetricsSink {
  public:
    MetricsFile(std::string path, std::FILE * file, bool csv)
        : path_(std::move(path)), file_(file, &std::fclose), csv_(csv) {}
    Status add(const TrainProgress & progress) override {
        const std::string line = csv_ ? csv_line(progress) : json_line(progress);
        if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
            std::fflush(file_.get()) != 0) {
            return Error{ErrorKind::io,
                         "cannot write " + quoted(path_, 1024) + ": " + std::strerror(errno)};
        }
        return {};
    }

  private:
    std::string path_;
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file_;
    bool csv_;
};

}  // namespace

const char * event_name(TrainProgress::Event event) {
    switch (event) {
    case TrainProgress::Event::slice:
        return "slice";
    case TrainProgress::Event::step:
        return "step";
    case TrainProgress::Event::validation:
        return "validation";
    case TrainProgress::Event::epoch:
        return "epoch";
    case TrainProgress::Event::done:
        return "done";
    }
    return "";
}

Result<std::unique_ptr<MetricsSink>> open_metrics_file(const std::string & path, bool resumed,
                                                       int step) {
    const bool csv = path.ends_with(".csv");
    if (!csv && !path.ends_with(".jsonl")) {
        return Error{ErrorKind::invalid_argument, "metrics file " + quoted(path, 1024) +
                                                      ": allowed are names that end in .jsonl or "
                                                      ".csv"};
    }
    std::string begin = csv ? csv_header() : "";
    if (resumed && std::filesystem::exists(path)) {
        begin = lines_through(LUMI_TRY(read_text_file(path, kMaxOldBytes)), csv, step);
    }
    LUMI_TRY(write_text_file(path, begin));
    std::FILE * file = std::fopen(path.c_str(), "ab");
    if (file == nullptr) {
        return Error{ErrorKind::io,
                     "cannot open " + quoted(path, 1024) + ": " + std::strerror(errno)};
    }
    return std::unique_ptr<MetricsSink>(std::make_unique<MetricsFile>(path, file, csv));
}

}  // namespace lumi
