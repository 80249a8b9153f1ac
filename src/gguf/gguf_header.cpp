// The header parser: preamble, metadata, tensor table. Each field is checked where it is read.
#include "gguf/gguf_header.h"

#include "base/checked.h"
#include "base/utf8.h"
#include "gguf/byte_cursor.h"
#include "gguf/gguf_types.h"

#include <algorithm>
#include <numeric>

namespace lumi {

namespace {

constexpr uint64_t kPreambleBytes = 24;  // magic, version, tensor count, key count
// What an entry takes even with an empty name or no dimension, which have messages of their own.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

class HeaderParser {
  public:
    explicit HeaderParser(std::span<const std::byte> bytes) : bytes_(bytes), cursor_(bytes) {}

    Result<GgufHeader> parse();

  private:
    Status read_preamble();
    Status check_version() const;
    Status read_values();
    Status read_value();
    Status read_elements(GgufValue & value);
    Status read_alignment();
    Status read_tensors();
    Status read_tensor();
    Status read_shape(TensorInfo & tensor);

    // "key 3 'general.name'": the item that is being read.
    std::string item() const;
    Error bad(const std::string & what) const {
        return {ErrorKind::invalid_file, item() + ": " + what};
    }
    Error truncated(const std::string & field, uint64_t needed) const;

    template <typename T> Result<T> read(const char * field) {
        T value = 0;
        if (!cursor_.read(value)) {
            return truncated(field, sizeof(T));
        }
        return value;
    }
    Result<std::string_view> read_name(const char * field, uint64_t max_bytes);

    std::span<const std::byte> bytes_;
    ByteCursor cursor_;
    GgufHeader header_;
    uint64_t n_keys_ = 0;
    uint64_t n_tensors_ = 0;
    const char * kind_ = "header";
    uint64_t index_ = 0;
    std::string_view name_;
};

std::string HeaderParser::item() const {
    std::string out = kind_;
    if (index_ > 0) {
        out += " " + std::to_string(index_);
    }
    return name_.empty() ? out : out + " " + quoted(name_);
}

Error HeaderParser::truncated(const std::string & field, uint64_t needed) const {
    return bad("its " + field + " needs " + std::to_string(needed) + " bytes at byte " +
               std::to_string(cursor_.position()) + ", but the file ends " +
               std::to_string(cursor_.left()) + " bytes later: the file is truncated or damaged");
}

// A key or tensor name: not empty, no NUL (C readers would see a shorter, perhaps equal name).
Result<std::string_view> HeaderParser::read_name(const char * field, uint64_t max_bytes) {
    const auto length = LUMI_TRY(read<uint64_t>(field));
    std::span<const std::byte> raw;
    if (length > max_bytes && length <= cursor_.left()) {
        return bad("its " + std::string(field) + " has " + std::to_string(length) +
                   " bytes; at most " + std::to_string(max_bytes) + " are allowed");
    }
    if (!cursor_.take(length, raw)) {
        return truncated(field, length);
    }
    const std::string_view name(reinterpret_cast<const char *>(raw.data()), raw.size());
    if (name.empty()) {
        return bad("its " + std::string(field) + " is empty");
    }
    if (name.find('\0') != std::string_view::npos) {
        return bad("its " + std::string(field) + " " + quoted(name) + " contains a NUL byte");
    }
    return name;
}

Status HeaderParser::check_version() const {
    const uint32_t version = header_.version;
    // Sane versions are small: a set byte at the far end means that the order is reversed.
    if (version != 0 && (version & 0xffff) == 0) {
        return Error{ErrorKind::unsupported,
                     "the file was written for machines of the other byte order (big endian); "
                     "only little-endian files can be read: convert it first"};
    }
    if (version == 1) {
        return Error{ErrorKind::unsupported, "this is GGUF version 1, which is no longer in use; "
                                             "versions 2 and 3 can be read: convert it again"};
    }
    if (version != 2 && version != 3) {
        return Error{ErrorKind::unsupported, "this is GGUF version " + std::to_string(version) +
                                                 "; versions 2 and 3 can be read"};
    }
    return {};
}

Status HeaderParser::read_preamble() {
    const std::string size = std::to_string(bytes_.size());
    if (bytes_.empty()) {
        return Error{ErrorKind::invalid_file, "the file is empty"};
    }
    if (bytes_.size() < 4) {
        return Error{ErrorKind::invalid_file, "not a GGUF file: it has only " + size + " bytes"};
    }
    const std::string_view magic(reinterpret_cast<const char *>(bytes_.data()), 4);
    if (magic == "FUGG") {
        header_.version = 0x03000000;  // the whole file is reversed; the message is the same
        return check_version();
    }
    if (magic != "GGUF") {
        return Error{ErrorKind::invalid_file,
                     "not a GGUF file: it starts with " + quoted(magic) + " instead of 'GGUF'"};
    }
    LUMI_TRY(read<uint32_t>("magic"));
    if (cursor_.read(header_.version)) {
        LUMI_TRY(check_version());
    }
    if (!cursor_.read(n_tensors_) || !cursor_.read(n_keys_)) {
        return Error{ErrorKind::invalid_file, "the header is truncated: the file has " + size +
                                                  " bytes, a GGUF header " +
                                                  std::to_string(kPreambleBytes)};
    }
    const auto check = [&](const char * what, uint64_t count, uint64_t cap,
                           uint64_t bytes) -> Status {
        if (count <= cap && count * bytes <= cursor_.left()) {
            return {};
        }
        if (count > cap) {
            return Error{ErrorKind::invalid_file, "the header announces " + std::to_string(count) +
                                                      " " + what + "; at most " +
                                                      std::to_string(cap) + " are allowed"};
        }
        return Error{ErrorKind::invalid_file,
                     "the header announces " + std::to_string(count) + " " + what +
                         ", which need at least " + std::to_string(count * bytes) +
                         " bytes, but the file has " + size + ": it is truncated or damaged"};
    };
    LUMI_TRY(check("metadata keys", n_keys_, kGgufMaxKeys, kMinKeyBytes));
    return check("tensors", n_tensors_, kGgufMaxTensors, kMinTensorBytes);
}

Status HeaderParser::read_values() {
    kind_ = "metadata key";
    header_.values.reserve(n_keys_);
    for (uint64_t i = 0; i < n_keys_; ++i) {
        index_ = i + 1;
        name_ = {};
        LUMI_TRY(read_value());
    }
    const auto & values = header_.values;
    auto & order = header_.value_order;
    order.resize(values.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return values[a].key < values[b].key; });
    const auto twice = std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return values[a].key == values[b].key;
    });
    if (twice != order.end()) {
        return Error{ErrorKind::invalid_file,
                     "the metadata key " + quoted(values[*twice].key) + " appears more than once"};
    }
    return {};
}

Status HeaderParser::read_value() {
    GgufValue value;
    value.key = LUMI_TRY(read_name("name", kGgufMaxKeyBytes));
    name_ = value.key;
    value.type = static_cast<GgufType>(LUMI_TRY(read<uint32_t>("type")));
    value.element = value.type;
    if (value.type == GgufType::array) {
        value.element = static_cast<GgufType>(LUMI_TRY(read<uint32_t>("element type")));
        value.count = LUMI_TRY(read<uint64_t>("element count"));
        if (value.element == GgufType::array) {
            return bad("it is an array of arrays, which no reader of models knows");
        }
    }
    if (value.element != GgufType::string && gguf_value_bytes(value.element) == 0) {
        return bad("value type " + std::to_string(static_cast<uint32_t>(value.element)) +
                   " is not one of the format's 0 to 12");
    }
    LUMI_TRY(read_elements(value));
    header_.values.push_back(value);
    return {};
}

Status HeaderParser::read_elements(GgufValue & value) {
    const bool strings = value.element == GgufType::string;
    const uint64_t each = strings ? sizeof(uint64_t) : gguf_value_bytes(value.element);
    if (value.count > cursor_.left() / each) {
        if (value.type != GgufType::array) {
            return truncated("value", each);
        }
        return bad("its array of " + std::to_string(value.count) + " elements of " +
                   std::to_string(each) + " bytes or more does not fit the " +
                   std::to_string(cursor_.left()) +
                   " bytes left: the file is truncated or damaged");
    }
    const uint64_t start = cursor_.position();
    if (!strings) {
        cursor_.take(value.count * each, value.data);
        if (value.element == GgufType::boolean &&
            std::any_of(value.data.begin(), value.data.end(),
                        [](std::byte b) { return std::to_integer<int>(b) > 1; })) {
            return bad("a bool is neither 0 nor 1");
        }
        return {};
    }
    for (uint64_t i = 0; i < value.count; ++i) {
        std::string_view text;
        if (!cursor_.read_string(text)) {
            uint64_t length = 0;
            const std::string field = "string " + std::to_string(i);
            return cursor_.read(length) ? truncated(field, length) : truncated(field, 8);
        }
    }
    value.data = bytes_.subspan(start, cursor_.position() - start);
    return {};
}

Status HeaderParser::read_alignment() {
    header_.alignment = kGgufDefaultAlignment;
    const GgufValue * value = header_.find_value("general.alignment");
    if (value == nullptr) {
        return {};
    }
    if (value->type != GgufType::u32) {
        return Error{ErrorKind::invalid_file, std::string("general.alignment has type ") +
                                                  gguf_type_name(value->type) + "; it must be u32"};
    }
    ByteCursor(value->data).read(header_.alignment);
    const uint32_t found = header_.alignment;
    if (found < kGgufMinAlignment || found > kGgufMaxAlignment || (found & (found - 1)) != 0) {
        return Error{ErrorKind::invalid_file, "general.alignment is " + std::to_string(found) +
                                                  "; it must be a power of two from " +
                                                  std::to_string(kGgufMinAlignment) + " to " +
                                                  std::to_string(kGgufMaxAlignment)};
    }
    return {};
}

Status HeaderParser::read_tensors() {
    kind_ = "tensor";
    header_.tensors.reserve(n_tensors_);
    for (uint64_t i = 0; i < n_tensors_; ++i) {
        index_ = i + 1;
        name_ = {};
        LUMI_TRY(read_tensor());
    }
    const auto & tensors = header_.tensors;
    auto & order = header_.tensor_order;
    order.resize(tensors.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return tensors[a].name < tensors[b].name; });
    const auto twice = std::adjacent_find(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return tensors[a].name == tensors[b].name;
    });
    if (twice != order.end()) {
        return Error{ErrorKind::invalid_file,
                     "the tensor " + quoted(tensors[*twice].name) + " appears more than once"};
    }
    return {};
}

Status HeaderParser::read_tensor() {
    TensorInfo tensor;
    name_ = LUMI_TRY(read_name("name", kGgufMaxTensorNameBytes));
    tensor.name = name_;
    LUMI_TRY(read_shape(tensor));
    const auto type = LUMI_TRY(read<uint32_t>("type"));
    if (!known_tensor_type(type)) {
        return bad("tensor type " + std::to_string(type) + " is not one that this ggml knows");
    }
    tensor.type = static_cast<ggml_type>(type);
    tensor.offset = LUMI_TRY(read<uint64_t>("offset"));
    const int64_t block = ggml_blck_size(tensor.type);
    if (tensor.ne[0] % block != 0) {
        return bad("its rows of " + std::to_string(tensor.ne[0]) +
                   " elements are not a multiple of " + std::to_string(block) +
                   ", the block size of " + ggml_type_name(tensor.type));
    }
    if (!checked_tensor_bytes(tensor.type, tensor.ne, tensor.n_bytes)) {
        return bad("its shape has more elements than 64 bits can count");
    }
    if (tensor.offset % header_.alignment != 0) {
        return bad("its data offset " + std::to_string(tensor.offset) +
                   " is not a multiple of the alignment " + std::to_string(header_.alignment));
    }
    header_.tensors.push_back(std::move(tensor));
    return {};
}

Status HeaderParser::read_shape(TensorInfo & tensor) {
    const auto n_dims = LUMI_TRY(read<uint32_t>("number of dimensions"));
    if (n_dims < 1 || n_dims > 4) {
        return bad("it has " + std::to_string(n_dims) + " dimensions; 1 to 4 are allowed");
    }
    tensor.n_dims = static_cast<int>(n_dims);
    for (uint32_t i = 0; i < n_dims; ++i) {
        const auto size = LUMI_TRY(read<uint64_t>("shape"));
        if (size == 0 || size > INT64_MAX) {
            return bad("dimension " + std::to_string(i) + " is " + std::to_string(size) +
                       "; it must be between 1 and 2^63 - 1");
        }
        tensor.ne[i] = static_cast<int64_t>(size);
    }
    return {};
}

Result<GgufHeader> HeaderParser::parse() {
    LUMI_TRY(read_preamble());
    LUMI_TRY(read_values());
    LUMI_TRY(read_alignment());
    LUMI_TRY(read_tensors());
    header_.header_bytes = cursor_.position();
    uint64_t start = 0;
    if (!checked_align(header_.header_bytes, header_.alignment, start)) {
        return Error{ErrorKind::invalid_file, "the header is too long"};
    }
    header_.data_offset = start;
    for (TensorInfo & tensor : header_.tensors) {
        if (!checked_add(start, tensor.offset, tensor.offset)) {
            return Error{ErrorKind::invalid_file,
                         "tensor " + quoted(tensor.name) + ": its data offset is past 64 bits"};
        }
    }
    return std::move(header_);
}

// The element of order whose name equals wanted, or null.
template <typename Item, typename Name>
const Item * find_by_name(const std::vector<Item> & items, const std::vector<uint32_t> & order,
                          std::string_view wanted, Name name) {
    const auto at =
        std::lower_bound(order.begin(), order.end(), wanted,
                         [&](uint32_t i, std::string_view w) { return name(items[i]) < w; });
    return at != order.end() && name(items[*at]) == wanted ? &items[*at] : nullptr;
}

}  // namespace

const GgufValue * GgufHeader::find_value(std::string_view key) const {
    return find_by_name(values, value_order, key, [](const GgufValue & v) { return v.key; });
}

const TensorInfo * GgufHeader::find_tensor(std::string_view name) const {
    return find_by_name(tensors, tensor_order, name,
                        [](const TensorInfo & t) { return std::string_view(t.name); });
}

Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes) {
    return HeaderParser(bytes).parse();
}

}  // namespace lumi
