// Opening a GGUF file: map, parse, check; then lookups in the parsed tables.
#include "gguf/gguf_file.h"

#include "base/sha256.h"
#include "base/utf8.h"
#include "gguf/gguf_header.h"
#include "gguf/gguf_impl.h"

#include <algorithm>
#include <utility>

namespace lumi {

namespace {

// Split files are well formed, but a part alone is not a model.
Status check_not_split(const GgufFile & file) {
    if (!file.has("split.count")) {
        return {};
    }
    const int64_t count = LUMI_TRY(file.get_i64("split.count"));
    if (count > 1) {
        return Error{ErrorKind::unsupported,
                     file.path() + ": this is one part of a model split into " +
                         std::to_string(count) +
                         " files; split files are not read yet: merge the parts into one file "
                         "first (llama-gguf-split --merge)"};
    }
    return {};
}

}  // namespace

GgufFile::GgufFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GgufFile::GgufFile(GgufFile &&) noexcept = default;
GgufFile & GgufFile::operator=(GgufFile &&) noexcept = default;
GgufFile::~GgufFile() = default;

Result<GgufFile> GgufFile::open(const std::string & path) {
    MappedFile map = LUMI_TRY(MappedFile::open(path));
    GgufFile file = LUMI_TRY(from_bytes(map.bytes(), path));
    file.impl_->map = std::move(map);
    return file;
}

Result<GgufFile> GgufFile::from_bytes(std::span<const std::byte> bytes, std::string name) {
    auto header = parse_gguf_header(bytes);
    if (!header) {
        return header.error().within(name);
    }
    if (const Status extents = check_gguf_extents(*header, bytes); !extents) {
        return extents.error().within(name);
    }
    auto impl = std::make_unique<Impl>();
    impl->name = std::move(name);
    impl->bytes = bytes;
    impl->header = std::move(header).value();
    GgufFile file(std::move(impl));
    LUMI_TRY(check_not_split(file));
    return file;
}

const std::string & GgufFile::path() const {
    return impl_->name;
}
uint32_t GgufFile::version() const {
    return impl_->header.version;
}
std::span<const std::byte> GgufFile::bytes() const {
    return impl_->bytes;
}

bool GgufFile::has(std::string_view key) const {
    return find_value(key) != nullptr;
}

const GgufValue * GgufFile::find_value(std::string_view key) const {
    return impl_->header.find_value(key);
}

std::vector<std::string_view> GgufFile::keys() const {
    std::vector<std::string_view> out;
    out.reserve(impl_->header.values.size());
    for (const GgufValue & value : impl_->header.values) {
        out.push_back(value.key);
    }
    return out;
}

std::span<const TensorInfo> GgufFile::tensors() const {
    return impl_->header.tensors;
}

const TensorInfo * GgufFile::find_tensor(std::string_view name) const {
    return impl_->header.find_tensor(name);
}

std::span<const std::byte> GgufFile::tensor_data(const TensorInfo & tensor) const {
    // Holds for every tensor of this file; a foreign TensorInfo gets nothing.
    const uint64_t size = impl_->bytes.size();
    if (tensor.offset > size || tensor.n_bytes > size - tensor.offset) {
        return {};
    }
    return impl_->bytes.subspan(tensor.offset, tensor.n_bytes);
}

std::string GgufFile::fingerprint() const {
    const auto header = impl_->bytes.first(impl_->header.header_bytes);
    std::vector<std::byte> sample(header.begin(), header.end());
    constexpr size_t kPiece = 256;
    for (const TensorInfo & tensor : impl_->header.tensors) {
        const auto data = tensor_data(tensor);
        for (const size_t begin : {size_t{0}, data.size() / 2}) {
            const auto piece = data.subspan(begin, std::min(kPiece, data.size() - begin));
            sample.insert(sample.end(), piece.begin(), piece.end());
        }
    }
    return sha256_hex(sample);
}

}  // namespace lumi
