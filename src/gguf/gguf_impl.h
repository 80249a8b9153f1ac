// What a GgufFile holds; shared by the two files that implement it.
#pragma once

#include "gguf/gguf_header.h"

namespace lumi {

struct GgufFile::Impl {
    std::string name;
    MappedFile map;  // empty when the bytes belong to the caller
    std::span<const std::byte> bytes;
    GgufHeader header;
};

}  // namespace lumi
