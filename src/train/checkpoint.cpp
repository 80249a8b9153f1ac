// Writing streams the moments from the device; reading maps the file and checks every length and
// number, since a checkpoint is a file like any other.
#include "train/checkpoint.h"

#include "base/crc32c.h"
#include "base/utf8.h"
#include "gguf/finite.h"
#include "gguf/gguf_writer.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace lumi {

namespace {

constexpr const char * kType = "training-checkpoint";
constexpr uint32_t kVersion = 1;
// CRC-32C over the data of all tensors in the order of the file.
constexpr const char * kChecksum = "lumi.checkpoint.crc32c";
constexpr std::string_view kSettingPrefix = "lumi.setting.";
constexpr double kMostSteps = 1e9;

// Every number of the state, in the order of the file. Words of the generator go as two halves,
// since a double holds 53 bits. F is called with a reference and the range it may have.
template <typename State, typename F> void each_number(State & s, F && f) {
    const double any = std::numeric_limits<double>::max();
    f(s.phase, 0, 2);
    f(s.step, 0, kMostSteps);
    f(s.verified, 0, 1);
    f(s.recompute, 0, 1);
    f(s.loss_scale.value, 1e-30, 1e30);
    f(s.loss_scale.clean_steps, 0, kMostSteps);
    f(s.best_loss, -any, any);
    f(s.best_epoch, 0, kMostSteps);
    f(s.epoch_loss, -any, any);
    f(s.epoch_weight, 0, any);
    f(s.last_loss, -any, any);
    f(s.smoothed, -any, any);
    f(s.gradient_norm, 0, any);
    f(s.learning_rate, 0, any);
    f(s.tokens_done, 0, 0x1p53);
    f(s.targets_done, 0, 0x1p53);
    f(s.seconds, 0, any);
    f(s.train_seconds, 0, any);
}

constexpr size_t kRngHalves = 8;

std::vector<double> numbers_of(const TrainState & state) {
    std::vector<double> numbers;
    each_number(state, [&](const auto & value, double, double) {
        numbers.push_back(static_cast<double>(value));
    });
    for (const uint64_t word : state.rng.words) {
        numbers.push_back(static_cast<double>(word >> 32U));
        numbers.push_back(static_cast<double>(word & 0xffffffffU));
    }
    return numbers;
}

Status set_numbers(std::span<const double> numbers, TrainState & state) {
    size_t next = 0;
    bool good = true;
    const auto take = [&](double low, double high) {
        const double value = next < numbers.size() ? numbers[next] : NAN;
        ++next;
        good = good && value >= low && value <= high;
        return good ? value : low;
    };
    each_number(state, [&](auto & value, double low, double high) {
        value = static_cast<std::remove_reference_t<decltype(value)>>(take(low, high));
    });
    for (uint64_t & word : state.rng.words) {
        const auto high = static_cast<uint64_t>(take(0, 0xffffffff));
        word = high << 32U | static_cast<uint64_t>(take(0, 0xffffffff));
    }
    if (!good || next != numbers.size()) {
        return Error{ErrorKind::invalid_file,
                     "tensor 'state' holds " + std::to_string(numbers.size()) +
                         " numbers, expected " + std::to_string(next) + ", each in its range"};
    }
    return {};
}

std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

Status check_sum(const GgufFile & file) {
    const uint32_t expected = LUMI_TRY(file.get_u32(kChecksum));
    uint32_t sum = 0;
    for (const TensorInfo & tensor : file.tensors()) {
        sum = crc32c(text_of(file.tensor_data(tensor)), sum);
    }
    if (sum != expected) {
        return Error{ErrorKind::invalid_file, "its data is damaged: the checksum is " +
                                                  std::to_string(sum) + ", " + kChecksum +
                                                  " says " + std::to_string(expected)};
    }
    return {};
}

template <typename T> constexpr ggml_type type_of() {
    return std::is_same_v<T, float>    ? GGML_TYPE_F32
           : std::is_same_v<T, double> ? GGML_TYPE_F64
                                       : GGML_TYPE_I32;
}

class Reader {
  public:
    explicit Reader(const GgufFile & file) : file_(file) {}

    // The tensor's elements; empty when it is absent and may be.
    template <typename T> Result<std::span<const T>> read(const char * name, bool required) const {
        const TensorInfo * tensor = file_.find_tensor(name);
        if (tensor == nullptr) {
            if (required) {
                return Error{ErrorKind::invalid_file, "tensor " + quoted(name) + " is missing"};
            }
            return std::span<const T>();
        }
        if (tensor->type != type_of<T>()) {
            return Error{ErrorKind::invalid_file, "tensor " + quoted(name) + " has type " +
                                                      ggml_type_name(tensor->type) + ", expected " +
                                                      ggml_type_name(type_of<T>())};
        }
        const std::span<const std::byte> bytes = file_.tensor_data(*tensor);
        if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(T) != 0) {
            return Error{ErrorKind::invalid_file, "tensor " + quoted(name) + " is not aligned"};
        }
        if (const auto bad = first_non_finite(tensor->type, bytes)) {
            return Error{ErrorKind::numeric, "tensor " + quoted(name) + ": element " +
                                                 std::to_string(*bad) + " is not finite"};
        }
        return std::span(reinterpret_cast<const T *>(bytes.data()), bytes.size() / sizeof(T));
    }

    Status read_losses(const char * name, std::vector<double> & into) const {
        const std::span<const double> losses = LUMI_TRY(read<double>(name, false));
        into.assign(losses.begin(), losses.end());
        return {};
    }

  private:
    const GgufFile & file_;
};

// Each sample once.
Status check_order(std::span<const int32_t> order) {
    std::vector<bool> seen(order.size(), false);
    for (const int32_t sample : order) {
        if (sample < 0 || static_cast<size_t>(sample) >= order.size() ||
            seen[static_cast<size_t>(sample)]) {
            return Error{ErrorKind::invalid_file, "tensor 'order' is not an order of samples"};
        }
        seen[static_cast<size_t>(sample)] = true;
    }
    return {};
}

Status read_header(const GgufFile & file, TrainSettings & settings) {
    const Result<std::string_view> type = file.get_string("general.type");
    if (!type.ok() || *type != kType) {
        return Error{ErrorKind::invalid_file,
                     std::string("general.type is ") + (type.ok() ? quoted(*type) : "missing") +
                         ", expected '" + kType + "': this file is no checkpoint"};
    }
    const uint32_t version = LUMI_TRY(file.get_u32("lumi.checkpoint.version"));
    if (version != kVersion) {
        return Error{ErrorKind::unsupported, "lumi.checkpoint.version is " +
                                                 std::to_string(version) + ", this lumi reads " +
                                                 std::to_string(kVersion)};
    }
    for (const std::string_view key : file.keys()) {
        if (key.starts_with(kSettingPrefix)) {
            const std::string_view value = LUMI_TRY(file.get_string(key));
            settings[std::string(key.substr(kSettingPrefix.size()))] = value;
        }
    }
    return {};
}

Status fill(Checkpoint & c) {
    LUMI_TRY(read_header(c.file, c.settings));
    const Reader reader(c.file);
    const std::span<const double> numbers = LUMI_TRY(reader.read<double>("state", true));
    LUMI_TRY(set_numbers(numbers, c.state));
    const std::span<const int32_t> order = LUMI_TRY(reader.read<int32_t>("order", true));
    LUMI_TRY(check_order(order));
    c.state.order.assign(order.begin(), order.end());
    c.parameters = LUMI_TRY(reader.read<float>("parameters", true));
    c.first_moment = LUMI_TRY(reader.read<float>("first_moment", true));
    c.second_moment = LUMI_TRY(reader.read<float>("second_moment", true));
    c.good = LUMI_TRY(reader.read<float>("good", true));
    c.best = LUMI_TRY(reader.read<float>("best", false));
    TrainSummary & summary = c.state.summary;
    LUMI_TRY(reader.read_losses("step_loss", summary.step_loss));
    LUMI_TRY(reader.read_losses("epoch_train_loss", summary.epoch_train_loss));
    LUMI_TRY(reader.read_losses("epoch_validation_loss", summary.epoch_validation_loss));
    const size_t n = c.parameters.size();
    if (c.first_moment.size() != n || c.second_moment.size() != n || c.good.size() != n ||
        (!c.best.empty() && c.best.size() != n) ||
        summary.step_loss.size() != static_cast<size_t>(c.state.step)) {
        return Error{ErrorKind::invalid_file, "its tensors have different lengths"};
    }
    return check_sum(c.file);  // last: what has a name above has the clearer message
}

}  // namespace

Result<Checkpoint> read_checkpoint(const std::string & path) {
    return read_checkpoint(LUMI_TRY(GgufFile::open(path)));
}

Result<Checkpoint> read_checkpoint(GgufFile file) {
    Checkpoint checkpoint{std::move(file), {}, {}, {}, {}, {}, {}, {}};
    const Status filled = fill(checkpoint);
    if (!filled.ok()) {
        return filled.error().within("checkpoint " + quoted(checkpoint.file.path(), 1024));
    }
    return checkpoint;
}

Status write_checkpoint(const TrainState & state, const TrainSettings & settings,
                        const TrainParameters & parameters, const KeptWeights & kept,
                        const std::string & path) {
    GgufWriter writer;
    writer.set_string("general.type", kType);
    writer.set_string("lumi.version", LUMI_VERSION);
    writer.set_u32("lumi.checkpoint.version", kVersion);
    writer.set_u32("lumi.checkpoint.step", static_cast<uint32_t>(state.step));
    for (const auto & [name, value] : settings) {
        writer.set_string(std::string(kSettingPrefix) + name, value);
    }
    uint32_t sum = 0;
    const auto add = [&](const char * name, const auto & values) {
        using T = typename std::remove_cvref_t<decltype(values)>::value_type;
        const int64_t n = static_cast<int64_t>(values.size());
        if (n > 0) {
            const auto bytes = std::as_bytes(std::span(values));
            sum = crc32c(text_of(bytes), sum);
            writer.add_tensor(name, type_of<T>(), std::span(&n, 1), bytes);
        }
    };
    std::vector<std::byte> one_row;
    const auto stream = [&](const char * name, ggml_tensor * flat) {
        const int64_t ne[2] = {flat->ne[0], flat->ne[1]};
        one_row.resize(flat->nb[1]);
        for (int64_t row = 0; row < flat->ne[1]; ++row) {
            ggml_backend_tensor_get(flat, one_row.data(), static_cast<size_t>(row) * flat->nb[1],
                                    flat->nb[1]);
            sum = crc32c(text_of(one_row), sum);
        }
        writer.add_tensor(
            name, GGML_TYPE_F32, ne, [flat](uint64_t row, std::span<std::byte> out) -> Status {
                ggml_backend_tensor_get(flat, out.data(), row * flat->nb[1], out.size());
                return {};
            });
    };
    stream("parameters", parameters.weights());
    stream("first_moment", parameters.first_moment());
    stream("second_moment", parameters.second_moment());
    add("good", kept.good);
    add("best", kept.best);
    const std::vector<double> numbers = numbers_of(state);
    add("state", numbers);
    add("order", state.order);
    add("step_loss", state.summary.step_loss);
    add("epoch_train_loss", state.summary.epoch_train_loss);
    add("epoch_validation_loss", state.summary.epoch_validation_loss);
    writer.set_u32(kChecksum, sum);
    return writer.write(path);
}

}  // namespace lumi
