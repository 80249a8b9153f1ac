// Writes small GGUF models for the tests: a map of metadata and the tensors of tensor_roles, each
// of which a test may change before the file is written.
#pragma once

#include "gguf/gguf_writer.h"
#include "model/config.h"
#include "model/weights.h"

#include <functional>
#include <map>
#include <variant>

namespace lumi {

using MetaValue = std::variant<uint32_t, float, std::string, std::vector<int32_t>,
                               std::vector<bool>, std::vector<std::string>>;

struct TinyTensor {
    std::string name;
    ggml_type type = GGML_TYPE_F32;
    std::vector<int64_t> ne;
    std::vector<std::byte> data;
};

struct TinyFile {
    std::vector<std::pair<std::string, MetaValue>> meta;  // in file order
    std::vector<TinyTensor> tensors;

    void set(const std::string & key, MetaValue value);
    void drop(const std::string & key);
    TinyTensor & tensor(const std::string & name);
    void drop_tensor(const std::string & name);
    void add_tensor(const std::string & name, std::vector<int64_t> ne);

    // Writes to a fresh temporary file and opens it.
    GgufFile open() const;
};

// 8 layers, 2 and 5 global, the last 3 share: 5 reads 2, 6 and 7 read 4 (cases/inference.md).
TinyFile tiny_gemma4();
TinyFile tiny_gemma3();
TinyFile tiny_qwen3();

// A path in the test's temporary folder that no other test uses.
std::string fresh_path(const std::string & suffix);

}  // namespace lumi
