// Typed access to metadata values. The parser has checked that each value's bytes are there; here
// the type that the caller wants meets the type that the file has.
#include "gguf/byte_cursor.h"
#include "gguf/gguf_impl.h"
#include "gguf/gguf_types.h"

#include "base/utf8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lumi {

namespace {

std::string type_text(const GgufValue & value) {
    return value.type == GgufType::array ? std::string("array of ") + gguf_type_name(value.element)
                                         : gguf_type_name(value.type);
}

Error missing(const GgufFile & file, std::string_view key) {
    return {ErrorKind::invalid_file,
            file.path() + ": the metadata key " + quoted(key) + " is missing"};
}

Error mismatch(const GgufFile & file, const GgufValue & value, const char * wanted) {
    return {ErrorKind::invalid_file, file.path() + ": the metadata key " + quoted(value.key) +
                                         " has type " + type_text(value) + "; wanted " + wanted};
}

Error out_of_range(const GgufFile & file, const GgufValue & value, const char * wanted) {
    return {ErrorKind::invalid_file, file.path() + ": the metadata key " + quoted(value.key) +
                                         " holds a value that does not fit " + wanted};
}

template <typename T> T load(ByteCursor & cursor) {
    T value = 0;
    cursor.read(value);
    return value;
}

bool is_integer(GgufType type) {
    return type <= GgufType::i32 || type == GgufType::u64 || type == GgufType::i64;
}

// The next integer of this type; false when it does not fit 64 bits with a sign.
bool next_integer(ByteCursor & cursor, GgufType type, int64_t & out) {
    switch (type) {
    case GgufType::u8:
        out = load<uint8_t>(cursor);
        return true;
    case GgufType::i8:
        out = load<int8_t>(cursor);
        return true;
    case GgufType::u16:
        out = load<uint16_t>(cursor);
        return true;
    case GgufType::i16:
        out = load<int16_t>(cursor);
        return true;
    case GgufType::u32:
        out = load<uint32_t>(cursor);
        return true;
    case GgufType::i32:
        out = load<int32_t>(cursor);
        return true;
    case GgufType::i64:
        out = load<int64_t>(cursor);
        return true;
    case GgufType::u64: {
        const auto value = load<uint64_t>(cursor);
        out = static_cast<int64_t>(value);
        return value <= INT64_MAX;
    }
    default:
        return false;
    }
}

bool is_float(GgufType type) {
    return type == GgufType::f32 || type == GgufType::f64;
}

// The next float; false when a finite double is past the range of a float.
bool next_float(ByteCursor & cursor, GgufType type, float & out) {
    if (type == GgufType::f32) {
        out = load<float>(cursor);
        return true;
    }
    const auto value = load<double>(cursor);
    const double limit = std::numeric_limits<float>::max();
    if (std::isfinite(value) && std::abs(value) > limit) {
        return false;
    }
    out = static_cast<float>(value);
    return true;
}

template <typename T>
Result<T> get_integer(const GgufFile & file, std::string_view key, const char * wanted) {
    const GgufValue * value = file.find_value(key);
    if (value == nullptr) {
        return missing(file, key);
    }
    if (!is_integer(value->type)) {
        return mismatch(file, *value, wanted);
    }
    ByteCursor cursor(value->data);
    int64_t number = 0;
    if (!next_integer(cursor, value->type, number) || !std::in_range<T>(number)) {
        return out_of_range(file, *value, wanted);
    }
    return static_cast<T>(number);
}

// The array under key if accept(element type) holds.
template <typename Accept> Result<const GgufValue *>
get_array(const GgufFile & file, std::string_view key, Accept accept, const char * wanted) {
    const GgufValue * value = file.find_value(key);
    if (value == nullptr) {
        return missing(file, key);
    }
    if (value->type != GgufType::array || !accept(value->element)) {
        return mismatch(file, *value, wanted);
    }
    return value;
}

std::string element_text(ByteCursor & cursor, GgufType type) {
    if (type == GgufType::string) {
        std::string_view text;
        cursor.read_string(text);
        return quoted(text, 60);
    }
    if (type == GgufType::boolean) {
        return load<uint8_t>(cursor) != 0 ? "true" : "false";
    }
    if (type == GgufType::u64) {
        return std::to_string(load<uint64_t>(cursor));
    }
    if (is_float(type)) {
        const double number =
            type == GgufType::f32 ? static_cast<double>(load<float>(cursor)) : load<double>(cursor);
        char text[32];
        snprintf(text, sizeof(text), "%.7g", number);
        return text;
    }
    int64_t number = 0;
    next_integer(cursor, type, number);
    return std::to_string(number);
}

}  // namespace

Result<GgufType> GgufFile::type_of(std::string_view key) const {
    const GgufValue * value = find_value(key);
    if (value == nullptr) {
        return missing(*this, key);
    }
    return value->type;
}

bool GgufFile::is_array(std::string_view key) const {
    const GgufValue * value = find_value(key);
    return value != nullptr && value->type == GgufType::array;
}

Result<uint64_t> GgufFile::array_length(std::string_view key) const {
    const auto any = [](GgufType) { return true; };
    return LUMI_TRY(get_array(*this, key, any, "an array"))->count;
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
    const GgufValue * value = find_value(key);
    if (value == nullptr) {
        return missing(*this, key);
    }
    if (value->type != GgufType::string) {
        return mismatch(*this, *value, "a string");
    }
    std::string_view text;
    ByteCursor(value->data).read_string(text);
    return text;
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
    const GgufValue * value = find_value(key);
    if (value == nullptr) {
        return missing(*this, key);
    }
    if (value->type != GgufType::boolean) {
        return mismatch(*this, *value, "a bool");
    }
    return value->data[0] != std::byte{0};
}

Result<uint32_t> GgufFile::get_u32(std::string_view key) const {
    return get_integer<uint32_t>(*this, key, "an unsigned 32-bit integer");
}

Result<int64_t> GgufFile::get_i64(std::string_view key) const {
    return get_integer<int64_t>(*this, key, "a signed 64-bit integer");
}

Result<float> GgufFile::get_f32(std::string_view key) const {
    const GgufValue * value = find_value(key);
    if (value == nullptr) {
        return missing(*this, key);
    }
    if (!is_float(value->type)) {
        return mismatch(*this, *value, "a floating-point number");
    }
    ByteCursor cursor(value->data);
    float number = 0;
    if (!next_float(cursor, value->type, number)) {
        return out_of_range(*this, *value, "a 32-bit float");
    }
    return number;
}

Result<std::vector<std::string_view>> GgufFile::get_strings(std::string_view key) const {
    const auto is_string = [](GgufType type) { return type == GgufType::string; };
    const GgufValue * value = LUMI_TRY(get_array(*this, key, is_string, "an array of strings"));
    std::vector<std::string_view> out(value->count);
    ByteCursor cursor(value->data);
    for (std::string_view & text : out) {
        cursor.read_string(text);
    }
    return out;
}

Result<std::vector<int32_t>> GgufFile::get_i32s(std::string_view key) const {
    const GgufValue * value = LUMI_TRY(get_array(*this, key, is_integer, "an array of integers"));
    std::vector<int32_t> out(value->count);
    ByteCursor cursor(value->data);
    for (int32_t & element : out) {
        int64_t number = 0;
        if (!next_integer(cursor, value->element, number) || !std::in_range<int32_t>(number)) {
            return out_of_range(*this, *value, "a signed 32-bit integer");
        }
        element = static_cast<int32_t>(number);
    }
    return out;
}

Result<std::vector<float>> GgufFile::get_f32s(std::string_view key) const {
    const GgufValue * value =
        LUMI_TRY(get_array(*this, key, is_float, "an array of floating-point numbers"));
    std::vector<float> out(value->count);
    ByteCursor cursor(value->data);
    for (float & element : out) {
        if (!next_float(cursor, value->element, element)) {
            return out_of_range(*this, *value, "a 32-bit float");
        }
    }
    return out;
}

Result<std::vector<bool>> GgufFile::get_bools(std::string_view key) const {
    const auto is_bool = [](GgufType type) { return type == GgufType::boolean; };
    const GgufValue * value = LUMI_TRY(get_array(*this, key, is_bool, "an array of bools"));
    std::vector<bool> out(value->count);
    for (size_t i = 0; i < out.size(); ++i) {
        out[i] = value->data[i] != std::byte{0};
    }
    return out;
}

std::string GgufFile::value_text(std::string_view key) const {
    constexpr uint64_t kShown = 6;
    const GgufValue * value = find_value(key);
    if (value == nullptr) {
        return "(missing)";
    }
    ByteCursor cursor(value->data);
    if (value->type != GgufType::array) {
        return element_text(cursor, value->type);
    }
    std::string out = std::to_string(value->count) + " x " + gguf_type_name(value->element) + " [";
    for (uint64_t i = 0; i < std::min(value->count, kShown); ++i) {
        out += (i > 0 ? ", " : "") + element_text(cursor, value->element);
    }
    return out + (value->count > kShown ? ", ...]" : "]");
}

}  // namespace lumi
