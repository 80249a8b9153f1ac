// The part of a GGUF file before its tensor data, parsed into tables of views. Linear in its size;
// nothing is allocated for a count before the bytes left could hold it.
#pragma once

#include "gguf/gguf_file.h"

namespace lumi {

struct GgufHeader {
    uint32_t version = 0;
    uint32_t alignment = 0;
    uint64_t header_bytes = 0;  // metadata and tensor table
    uint64_t data_offset = 0;   // header_bytes, aligned
    std::vector<GgufValue> values;
    std::vector<TensorInfo> tensors;
    // Indices sorted by key and by name. Lookups and duplicate checks go by order, not by hash, so
    // that no choice of names makes them slow.
    std::vector<uint32_t> value_order;
    std::vector<uint32_t> tensor_order;

    const GgufValue * find_value(std::string_view key) const;
    const TensorInfo * find_tensor(std::string_view name) const;
};

// Errors do not name the file; the caller does.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> bytes);

// Where tensors lie in a file of these bytes: inside it, not over each other, nothing behind them.
Status check_gguf_extents(const GgufHeader & header, std::span<const std::byte> bytes);

}  // namespace lumi
