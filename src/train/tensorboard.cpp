// TensorBoard's event files: records of a length, its checksum, an Event as protocol buffer bytes
// and their checksum. The few fields that are used are encoded by hand.
//   Event    1 wall_time double, 2 step int64, 3 file_version string, 5 summary, 7 session_log
//   Summary  1 value: 1 tag string, 2 simple_value float
//   SessionLog  1 status (1 = start)
#include "train/metrics.h"

#include "base/crc32c.h"
#include "base/utf8.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace lumi {

namespace {

enum class Wire : unsigned { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <typename T> void put_raw(std::string & out, T value) {
    out.append(reinterpret_cast<const char *>(&value), sizeof value);  // little endian hosts only
}

void put_varint(std::string & out, uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
        out += static_cast<char>(value | 0x80U);
    }
    out += static_cast<char>(value);
}

void put_key(std::string & out, unsigned field, Wire wire) {
    put_varint(out, field << 3U | static_cast<unsigned>(wire));
}

void put_bytes(std::string & out, unsigned field, std::string_view bytes) {
    put_key(out, field, Wire::bytes);
    put_varint(out, bytes.size());
    out += bytes;
}

std::string event_head(double wall_time, int step) {
    std::string event;
    put_key(event, 1, Wire::fixed64);
    put_raw(event, wall_time);
    put_key(event, 2, Wire::varint);
    put_varint(event, static_cast<uint64_t>(step));
    return event;
}

void add_scalar(std::string & summary, std::string_view tag, double value) {
    std::string entry;
    put_bytes(entry, 1, tag);
    put_key(entry, 2, Wire::fixed32);
    put_raw(entry, static_cast<float>(value));
    put_bytes(summary, 1, entry);
}

// The format's own way to keep a checksum of data that holds checksums from being trivial.
uint32_t masked_crc(std::string_view bytes) {
    const uint32_t crc = crc32c(bytes);
    return (crc >> 15U | crc << 17U) + 0xa282ead8U;
}

std::string record(const std::string & event) {
    std::string out;
    put_raw(out, static_cast<uint64_t>(event.size()));
    put_raw(out, masked_crc(out));
    out += event;
    put_raw(out, masked_crc(event));
    return out;
}

double now_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

std::string summary_of(const TrainProgress & p) {
    std::string summary;
    if (p.event == TrainProgress::Event::step) {
        add_scalar(summary, "train/loss", p.loss);
        add_scalar(summary, "train/smoothed_loss", p.smoothed_loss);
        add_scalar(summary, "train/grad_norm", p.grad_norm);
        add_scalar(summary, "train/learning_rate", p.learning_rate);
        add_scalar(summary, "train/epoch", p.epoch);
        add_scalar(summary, "speed/supervised_tokens_per_second", p.targets_per_second);
        add_scalar(summary, "speed/tokens_per_second", p.tokens_per_second);
        add_scalar(summary, "speed/memory_gib", static_cast<double>(p.memory_bytes) / 0x1p30);
    } else if (p.event == TrainProgress::Event::validation) {
        add_scalar(summary, "validation/loss", p.loss);
    } else if (p.event == TrainProgress::Event::epoch) {
        add_scalar(summary, "train/epoch_loss", p.loss);
    }
    return summary;
}

class EventFile : public MetricsSink {
  public:
    EventFile(std::string path, std::FILE * file)
        : path_(std::move(path)), file_(file, &std::fclose) {}

    Status add(const TrainProgress & progress) override {
        const std::string summary = summary_of(progress);
        if (summary.empty()) {
            return {};
        }
        std::string event = event_head(now_seconds(), progress.step);
        put_bytes(event, 5, summary);
        return write(event);
    }
    Status write(const std::string & event) {
        const std::string bytes = record(event);
        if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
            std::fflush(file_.get()) != 0) {
            return Error{ErrorKind::io,
                         "cannot write " + quoted(path_, 1024) + ": " + std::strerror(errno)};
        }
        return {};
    }

  private:
    std::string path_;
    std::unique_ptr<std::FILE, int (*)(std::FILE *)> file_;
};

}  // namespace

Result<std::unique_ptr<MetricsSink>> open_tensorboard(const std::string & folder, bool resumed,
                                                      int step) {
    std::error_code code;
    std::filesystem::create_directories(folder, code);
    char host[256] = "host";
    gethostname(host, sizeof host - 1);
    const double now = now_seconds();
    const auto path = (std::filesystem::path(folder) /
                       ("events.out.tfevents." + std::to_string(static_cast<int64_t>(now)) + "." +
                        host + "." + std::to_string(getpid()) + ".lumi"))
                          .string();
    std::FILE * opened = std::fopen(path.c_str(), "wb");
    if (opened == nullptr) {
        return Error{ErrorKind::io,
                     "cannot open " + quoted(path, 1024) + ": " + std::strerror(errno)};
    }
    auto file = std::make_unique<EventFile>(path, opened);
    std::string version = event_head(now, 0);
    put_bytes(version, 3, "brain.Event:2");
    LUMI_TRY(file->write(version));
    if (resumed) {
        std::string start = event_head(now, step + 1);
        put_bytes(start, 7, std::string("\x08\x01", 2));
        LUMI_TRY(file->write(start));
    }
    return std::unique_ptr<MetricsSink>(std::move(file));
}

}  // namespace lumi
