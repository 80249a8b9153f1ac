// Writes a GGUF v3 file: metadata first, then tensors in the order they were declared. Refuses
// duplicate keys and tensors and non-finite F32/F16/BF16 data. The file appears under its name only
// after a reopen through GgufFile that checks it, fsync and rename; until then, and on any failure,
// the old file stays as it was.
#pragma once

#include "gguf/gguf_file.h"

#include <functional>

namespace lumi {

class GgufWriter {
  public:
    GgufWriter();
    ~GgufWriter();
    GgufWriter(GgufWriter &&) noexcept;
    GgufWriter & operator=(GgufWriter &&) noexcept;

    // Metadata; a repeated key is reported by write().
    void set_string(std::string key, std::string value);
    void set_u32(std::string key, uint32_t value);
    void set_u64(std::string key, uint64_t value);
    void set_i32(std::string key, int32_t value);
    void set_f32(std::string key, float value);
    void set_bool(std::string key, bool value);
    void set_strings(std::string key, std::span<const std::string> values);
    void set_i32s(std::string key, std::span<const int32_t> values);
    void set_f32s(std::string key, std::span<const float> values);
    void set_bools(std::string key, const std::vector<bool> & values);
    // Copies one key of another file with its exact type and bytes. general.alignment is left out:
    // this writer always aligns to 32 bytes.
    Status copy_key(const GgufFile & from, std::string_view key);

    // A tensor whose bytes live until write() returns.
    void add_tensor(std::string name, ggml_type type, std::span<const int64_t> ne,
                    std::span<const std::byte> data);
    // A tensor produced while writing: fill(out) is called once per piece, in order, with spans
    // that together make up the tensor's bytes (each a whole number of rows). For files over memory
    // size.
    using Producer = std::function<Status(uint64_t first_row, std::span<std::byte> rows)>;
    void add_tensor(std::string name, ggml_type type, std::span<const int64_t> ne, Producer fill);

    Status write(const std::string & path, const FileOps & ops = system_file_ops());

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi
