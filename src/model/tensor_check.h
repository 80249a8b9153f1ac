// The tensors a config asks for against those a file has.
#pragma once

#include "gguf/gguf_file.h"
#include "model/weights.h"

#include <vector>

namespace lumi {

struct BoundTensor {
    TensorRole role;
    const TensorInfo * info = nullptr;
};

// One entry a role that the file fills. Missing, misshapen, unusable and unknown tensors are
// different errors; foreign parts of a multimodal file (v., a., mm.) are ignored.
Result<std::vector<BoundTensor>> bind_tensors(const GgufFile & file, const Config & config,
                                              std::vector<TensorRole> roles);

}  // namespace lumi
