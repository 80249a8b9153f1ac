// What the tensor table claims about the file against what the file is: truncated downloads,
// tensors over each other, files joined with cat, foreign bytes at the end.
#include "base/checked.h"
#include "base/utf8.h"
#include "gguf/gguf_header.h"

#include <algorithm>
#include <numeric>

namespace lumi {

namespace {

std::string range_text(const TensorInfo & tensor) {
    return "tensor " + quoted(tensor.name) + " needs bytes " + std::to_string(tensor.offset) +
           " to " + std::to_string(tensor.offset + tensor.n_bytes);
}

// Ends are known to fit 64 bits after this.
Status check_ends(const GgufHeader & header) {
    for (const TensorInfo & tensor : header.tensors) {
        uint64_t end = 0;
        if (!checked_add(tensor.offset, tensor.n_bytes, end)) {
            return Error{ErrorKind::invalid_file, "tensor " + quoted(tensor.name) + ": offset " +
                                                      std::to_string(tensor.offset) + " and size " +
                                                      std::to_string(tensor.n_bytes) +
                                                      " are past what a file can hold"};
        }
    }
    return {};
}

Status check_tail(const GgufHeader & header, uint64_t data_end, std::span<const std::byte> bytes) {
    uint64_t padded = 0;
    if (!checked_align(data_end, header.alignment, padded) || bytes.size() <= data_end) {
        return {};
    }
    for (const uint64_t at : {data_end, padded}) {
        if (at < bytes.size() && bytes.size() - at >= 4 &&
            std::string_view(reinterpret_cast<const char *>(bytes.data() + at), 4) == "GGUF") {
            return Error{ErrorKind::invalid_file,
                         "a second GGUF file starts at byte " + std::to_string(at) +
                             ": files were joined end to end. The parts of a split model are "
                             "merged with a tool (llama-gguf-split --merge), not with cat"};
        }
    }
    if (bytes.size() > padded) {
        return Error{ErrorKind::invalid_file,
                     std::to_string(bytes.size() - padded) +
                         " bytes follow the last tensor, which ends at byte " +
                         std::to_string(data_end) + ": this is not the file that was written"};
    }
    return {};
}

}  // namespace

Status check_gguf_extents(const GgufHeader & header, std::span<const std::byte> bytes) {
    LUMI_TRY(check_ends(header));
    const auto & tensors = header.tensors;
    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return tensors[a].offset < tensors[b].offset; });
    uint64_t data_end = header.header_bytes;
    const TensorInfo * before = nullptr;
    const TensorInfo * cut = nullptr;
    for (const uint32_t i : order) {
        const TensorInfo & tensor = tensors[i];
        if (before != nullptr && tensor.offset < data_end) {
            return Error{ErrorKind::invalid_file,
                         range_text(*before) + ", and " + range_text(tensor) + ": they overlap"};
        }
        before = &tensor;
        data_end = tensor.offset + tensor.n_bytes;
        if (cut == nullptr && data_end > bytes.size()) {
            cut = &tensor;
        }
    }
    if (cut != nullptr) {
        return Error{ErrorKind::invalid_file,
                     range_text(*cut) + ", but the file has " + std::to_string(bytes.size()) +
                         " bytes: the file is truncated (whole, it has " +
                         std::to_string(data_end) + "); download it again"};
    }
    return check_tail(header, data_end, bytes);
}

}  // namespace lumi
