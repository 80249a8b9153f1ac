// Owning handles for ggml objects. One-line deleters, nothing else.
#pragma once

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <memory>

namespace lumi {

struct GgmlDeleter {
    void operator()(ggml_context * p) const { ggml_free(p); }
    void operator()(ggml_backend_t p) const { ggml_backend_free(p); }
    void operator()(ggml_backend_buffer_t p) const { ggml_backend_buffer_free(p); }
    void operator()(ggml_gallocr_t p) const { ggml_gallocr_free(p); }
};

using GgmlContext = std::unique_ptr<ggml_context, GgmlDeleter>;
using GgmlBackend = std::unique_ptr<ggml_backend, GgmlDeleter>;
using GgmlBuffer = std::unique_ptr<ggml_backend_buffer, GgmlDeleter>;
using GgmlAllocator = std::unique_ptr<ggml_gallocr, GgmlDeleter>;

}  // namespace lumi
