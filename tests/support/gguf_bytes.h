// Builds a GGUF file byte by byte, so that tests can make it wrong in one place. Independent of the
// writer on purpose: nothing is checked here.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

// The bytes of values of one type (the first's, unless named), one after the other.
template <typename T, typename... Rest> std::string raw(T first, Rest... rest) {
    const T values[] = {first, static_cast<T>(rest)...};
    return std::string(reinterpret_cast<const char *>(values), sizeof(values));
}
std::string raw_text(std::string_view text);  // 64-bit length, then the bytes
// prefix and a number: "w7".
std::string numbered(std::string prefix, uint64_t number);

class GgufBytes {
  public:
    uint32_t version = 3;

    GgufBytes & key(std::string name, uint32_t type, std::string value_bytes);
    GgufBytes & array(std::string name, uint32_t element, uint64_t count, std::string bytes);
    GgufBytes & text(std::string name, std::string_view value) {
        return key(std::move(name), 8, raw_text(value));
    }
    GgufBytes & u32(std::string name, uint32_t value) {
        return key(std::move(name), 4, raw(value));
    }
    GgufBytes & texts(std::string name, const std::vector<std::string> & values);
    // The offset follows from the tensors before it, 32-byte aligned.
    GgufBytes & tensor(std::string name, std::vector<uint64_t> ne, uint32_t type, uint64_t n_bytes);

    std::string build() const;
    // The file with one field overwritten. Fields: magic, version, n_tensors, n_keys; KEY/name (its
    // length), KEY/text, KEY/type, KEY/element, KEY/count, KEY/value; TENSOR/name, TENSOR/text,
    // TENSOR/n_dims, TENSOR/ne0..., TENSOR/type, TENSOR/offset; end (of the header), data.
    template <typename T> std::string patched(const std::string & field, T value) const {
        return patched_bytes(field, raw(value));
    }
    std::string patched_bytes(const std::string & field, std::string_view bytes) const;
    size_t at(const std::string & field) const;

  private:
    struct Key {
        std::string name;
        uint32_t type;
        std::string bytes;
    };
    struct Tensor {
        std::string name;
        std::vector<uint64_t> ne;
        uint32_t type;
        uint64_t n_bytes;
    };
    std::string build(std::map<std::string, size_t> & at) const;
    std::vector<Key> keys_;
    std::vector<Tensor> tensors_;
};

// A small valid file: every value type, a three-token vocabulary, F32 and Q8_0 tensors. The header
// does not end on a multiple of the alignment, and nothing follows the last tensor.
GgufBytes good_gguf();

inline std::span<const std::byte> as_bytes(const std::string & text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace lumi
