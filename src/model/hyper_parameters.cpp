// The checks behind every metadata number.

#include "model/hyper_parameters.h"

#include <cmath>
#include <cstdio>

namespace lumi {

namespace {

std::string range_text(int low, int high) {
    return std::to_string(low) + " to " + std::to_string(high);
}

std::string number_text(float value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
    return text;
}

}  // namespace

Error HyperParameters::out_of_range(std::string_view name, const std::string & found,
                                    const std::string & allowed) const {
    return {ErrorKind::invalid_file,
            file_->path() + ": '" + key(name) + "' is " + found + ", allowed is " + allowed};
}

Result<int> HyperParameters::checked(std::string_view name, int64_t value, int low,
                                     int high) const {
    if (value < low || value > high) {
        return out_of_range(name, std::to_string(value), range_text(low, high));
    }
    return static_cast<int>(value);
}

Result<int> HyperParameters::integer(std::string_view name, int low, int high,
                                     std::optional<int> fallback) const {
    if (fallback && !has(name)) {
        return *fallback;
    }
    return checked(name, LUMI_TRY(file_->get_i64(key(name))), low, high);
}

Result<float> HyperParameters::number(std::string_view name, float low, float high,
                                      std::optional<float> fallback) const {
    if (fallback && !has(name)) {
        return *fallback;
    }
    const float value = LUMI_TRY(file_->get_f32(key(name)));
    if (!(value >= low && value <= high)) {  // NaN fails both
        return out_of_range(name, number_text(value),
                            number_text(low) + " to " + number_text(high));
    }
    return value;
}

Result<std::vector<int>> HyperParameters::per_layer(std::string_view name, int n_layer, int low,
                                                    int high, std::optional<int> fallback) const {
    const auto count = static_cast<size_t>(n_layer);
    if (!file_->is_array(key(name))) {
        return std::vector<int>(count, LUMI_TRY(integer(name, low, high, fallback)));
    }
    const uint64_t length = LUMI_TRY(file_->array_length(key(name)));
    if (length != count) {
        return out_of_range(name, "an array of " + std::to_string(length),
                            "one number or an array of " + std::to_string(count) + ", one a layer");
    }
    std::vector<int> values = LUMI_TRY(file_->get_i32s(key(name)));
    for (const int value : values) {
        LUMI_TRY(checked(name, value, low, high));
    }
    return values;
}

Result<std::vector<bool>> HyperParameters::sliding_pattern(int n_layer, int fallback_period) const {
    constexpr const char * kName = "attention.sliding_window_pattern";
    const auto count = static_cast<size_t>(n_layer);
    if (file_->is_array(key(kName))) {
        const uint64_t length = LUMI_TRY(file_->array_length(key(kName)));
        if (length != count) {
            return out_of_range(kName, "an array of " + std::to_string(length),
                                "an array of " + std::to_string(count) + ", one flag a layer");
        }
        return file_->get_bools(key(kName));
    }
    const std::optional<int> fallback =
        fallback_period > 0 ? std::optional<int>(fallback_period) : std::nullopt;
    const int period = LUMI_TRY(integer(kName, 1, kMaxLayers, fallback));
    std::vector<bool> sliding(count);
    for (int il = 0; il < n_layer; ++il) {
        sliding[static_cast<size_t>(il)] = (il + 1) % period != 0;
    }
    return sliding;
}

}  // namespace lumi
