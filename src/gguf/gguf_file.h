// A GGUF file opened for reading: metadata and tensor table parsed and checked against the file's
// size before anything is touched; tensor data stays mapped. Every getter is typed and returns an
// error instead of aborting. One file, v2 or v3, little endian; split files are refused by name.
#pragma once

#include "base/file.h"

#include <lumi/error.h>

#include <ggml.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

// The value types of the format, with the numbers the format gives them.
enum class GgufType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};
const char * gguf_type_name(GgufType type);

struct TensorInfo {
    std::string name;
    ggml_type type = GGML_TYPE_F32;
    int n_dims = 0;
    int64_t ne[4] = {1, 1, 1, 1};  // ggml order
    uint64_t offset = 0;           // from the start of the file
    uint64_t n_bytes = 0;
};

// One metadata value as the file stores it.
struct GgufValue {
    std::string_view key;
    GgufType type = GgufType::u8;     // array for arrays
    GgufType element = GgufType::u8;  // of an array; the type itself otherwise
    uint64_t count = 1;               // elements of an array
    std::span<const std::byte> data;  // the elements, unaligned; strings with their 64-bit lengths
};

class GgufFile {
  public:
    // Maps and checks path.
    static Result<GgufFile> open(const std::string & path);
    // The same over bytes that outlive the object (the embedded model); name is used in messages.
    static Result<GgufFile> from_bytes(std::span<const std::byte> bytes, std::string name);

    GgufFile(GgufFile &&) noexcept;
    GgufFile & operator=(GgufFile &&) noexcept;
    ~GgufFile();

    const std::string & path() const;
    uint32_t version() const;
    std::span<const std::byte> bytes() const;  // the whole file

    // Metadata. Getters fail with the key, the type found and the type wanted; a missing key is
    // also an error, so ask has() first for optional ones. Integer getters accept every integer
    // type whose value fits; get_f32 accepts f32 and f64; views live as long as the object.
    bool has(std::string_view key) const;
    const GgufValue * find_value(std::string_view key) const;  // null when absent
    std::vector<std::string_view> keys() const;                // in file order
    Result<GgufType> type_of(std::string_view key) const;      // array for arrays
    bool is_array(std::string_view key) const;
    Result<uint64_t> array_length(std::string_view key) const;
    Result<std::string_view> get_string(std::string_view key) const;
    Result<bool> get_bool(std::string_view key) const;
    Result<uint32_t> get_u32(std::string_view key) const;
    Result<int64_t> get_i64(std::string_view key) const;
    Result<float> get_f32(std::string_view key) const;
    Result<std::vector<std::string_view>> get_strings(std::string_view key) const;
    Result<std::vector<int32_t>> get_i32s(std::string_view key) const;
    Result<std::vector<float>> get_f32s(std::string_view key) const;
    Result<std::vector<bool>> get_bools(std::string_view key) const;
    // A short printable form of any value (arrays cut after a few elements), for inspect.
    std::string value_text(std::string_view key) const;

    // Tensors, in file order; names are unique, extents lie inside the file and do not overlap.
    std::span<const TensorInfo> tensors() const;
    const TensorInfo * find_tensor(std::string_view name) const;  // null when absent
    std::span<const std::byte> tensor_data(const TensorInfo & tensor) const;

    // SHA-256 over the header (metadata and tensor table) and 512 bytes of every tensor, hex:
    // identifies a base model without reading all of it. Tuned weights differ even where the
    // metadata does not.
    std::string fingerprint() const;

  private:
    struct Impl;
    explicit GgufFile(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Bytes of a tensor of this type and shape, checked: false on overflow, bad type or a row that is
// not a multiple of the block size.
[[nodiscard]] bool checked_tensor_bytes(ggml_type type, const int64_t ne[4], uint64_t & out);

}  // namespace lumi
