// The writer. The header is encoded in memory and read back by our own parser before a byte goes to
// disk, so that every rule of the format has one home.
#include "gguf/gguf_writer.h"

#include "base/checked.h"
#include "base/utf8.h"
#include "gguf/finite.h"
#include "gguf/gguf_header.h"
#include "gguf/gguf_types.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lumi {

namespace {

constexpr uint64_t kPieceBytes = 8 * 1024 * 1024;

template <typename T> void put(std::string & out, T value) {
    out.append(reinterpret_cast<const char *>(&value), sizeof(T));
}

void put_text(std::string & out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out += text;
}

void put_type(std::string & out, GgufType type) {
    put(out, static_cast<uint32_t>(type));
}

struct PendingTensor {
    TensorInfo info;  // offset counts from the start of the data section here
    std::vector<int64_t> ne;
    std::span<const std::byte> data;
    GgufWriter::Producer fill;  // used instead of data when set
};

}  // namespace

struct GgufWriter::Impl {
    uint64_t n_keys = 0;
    std::string metadata;
    std::vector<PendingTensor> tensors;

    // Opens an entry; its value is put behind it.
    std::string & begin(std::string_view key, GgufType type) {
        ++n_keys;
        put_text(metadata, key);
        put_type(metadata, type);
        return metadata;
    }
    std::string & begin_array(std::string_view key, GgufType element, uint64_t count) {
        put_type(begin(key, GgufType::array), element);
        put(metadata, count);
        return metadata;
    }
    Status place_tensors();
    std::string header() const;
    Status write_tensor(AtomicFile & file, const PendingTensor & tensor) const;
    Status produce_tensor(AtomicFile & file, const PendingTensor & tensor) const;
};

GgufWriter::GgufWriter() : impl_(std::make_unique<Impl>()) {}
GgufWriter::~GgufWriter() = default;
GgufWriter::GgufWriter(GgufWriter &&) noexcept = default;
GgufWriter & GgufWriter::operator=(GgufWriter &&) noexcept = default;

void GgufWriter::set_string(std::string key, std::string value) {
    put_text(impl_->begin(key, GgufType::string), value);
}

void GgufWriter::set_u32(std::string key, uint32_t value) {
    put(impl_->begin(key, GgufType::u32), value);
}

void GgufWriter::set_u64(std::string key, uint64_t value) {
    put(impl_->begin(key, GgufType::u64), value);
}

void GgufWriter::set_i32(std::string key, int32_t value) {
    put(impl_->begin(key, GgufType::i32), value);
}

void GgufWriter::set_f32(std::string key, float value) {
    put(impl_->begin(key, GgufType::f32), value);
}

void GgufWriter::set_bool(std::string key, bool value) {
    put<uint8_t>(impl_->begin(key, GgufType::boolean), value ? 1 : 0);
}

void GgufWriter::set_strings(std::string key, std::span<const std::string> values) {
    std::string & out = impl_->begin_array(key, GgufType::string, values.size());
    for (const std::string & value : values) {
        put_text(out, value);
    }
}

void GgufWriter::set_i32s(std::string key, std::span<const int32_t> values) {
    impl_->begin_array(key, GgufType::i32, values.size())
        .append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
}

void GgufWriter::set_f32s(std::string key, std::span<const float> values) {
    impl_->begin_array(key, GgufType::f32, values.size())
        .append(reinterpret_cast<const char *>(values.data()), values.size_bytes());
}

void GgufWriter::set_bools(std::string key, const std::vector<bool> & values) {
    std::string & out = impl_->begin_array(key, GgufType::boolean, values.size());
    for (const bool value : values) {
        put<uint8_t>(out, value ? 1 : 0);
    }
}

Status GgufWriter::copy_key(const GgufFile & from, std::string_view key) {
    const GgufValue * value = from.find_value(key);
    if (value == nullptr) {
        return Error{ErrorKind::invalid_file,
                     from.path() + ": the metadata key " + quoted(key) + " is missing"};
    }
    if (key == "general.alignment") {
        return {};
    }
    std::string & out = value->type == GgufType::array
                            ? impl_->begin_array(key, value->element, value->count)
                            : impl_->begin(key, value->type);
    out.append(reinterpret_cast<const char *>(value->data.data()), value->data.size());
    return {};
}

void GgufWriter::add_tensor(std::string name, ggml_type type, std::span<const int64_t> ne,
                            std::span<const std::byte> data) {
    PendingTensor tensor;
    tensor.info.name = std::move(name);
    tensor.info.type = type;
    tensor.ne.assign(ne.begin(), ne.end());
    tensor.data = data;
    impl_->tensors.push_back(std::move(tensor));
}

void GgufWriter::add_tensor(std::string name, ggml_type type, std::span<const int64_t> ne,
                            Producer fill) {
    add_tensor(std::move(name), type, ne, std::span<const std::byte>());
    impl_->tensors.back().fill = std::move(fill);
}

// Sizes and offsets. Shapes that are wrong in themselves get no size here; the parser names them.
Status GgufWriter::Impl::place_tensors() {
    uint64_t next = 0;
    for (PendingTensor & tensor : tensors) {
        TensorInfo & info = tensor.info;
        const size_t n_dims = tensor.ne.size();
        std::copy_n(tensor.ne.begin(), std::min<size_t>(n_dims, 4), info.ne);
        if (n_dims < 1 || n_dims > 4 || !checked_tensor_bytes(info.type, info.ne, info.n_bytes)) {
            info.n_bytes = 0;
        } else if (!tensor.fill && tensor.data.size() != info.n_bytes) {
            return Error{ErrorKind::invalid_argument,
                         "tensor " + quoted(info.name) + ": its shape needs " +
                             std::to_string(info.n_bytes) + " bytes, its data has " +
                             std::to_string(tensor.data.size())};
        }
        info.offset = next;
        if (!checked_add(next, info.n_bytes, next) ||
            !checked_align(next, kGgufDefaultAlignment, next)) {
            return Error{ErrorKind::invalid_argument,
                         "tensor " + quoted(info.name) + ": the file would pass 64 bits"};
        }
    }
    return {};
}

std::string GgufWriter::Impl::header() const {
    std::string out = "GGUF";
    put<uint32_t>(out, 3);
    put<uint64_t>(out, tensors.size());
    put<uint64_t>(out, n_keys);
    out += metadata;
    for (const PendingTensor & tensor : tensors) {
        put_text(out, tensor.info.name);
        put(out, static_cast<uint32_t>(tensor.ne.size()));
        for (const int64_t size : tensor.ne) {
            put(out, size);
        }
        put(out, static_cast<uint32_t>(tensor.info.type));
        put(out, tensor.info.offset);
    }
    return out;
}

namespace {

Status check_finite(const TensorInfo & tensor, uint64_t first_element,
                    std::span<const std::byte> data) {
    if (const auto bad = first_non_finite(tensor.type, data)) {
        return Error{ErrorKind::numeric, "tensor " + quoted(tensor.name) + ": element " +
                                             std::to_string(first_element + *bad) +
                                             " is not finite; nothing was written"};
    }
    return {};
}

// What the file system gives back must be what was meant, before the old file goes.
Status check_written(const std::string & path, const std::string & header,
                     const GgufHeader & wanted) {
    const GgufFile file = LUMI_TRY(GgufFile::open(path));
    const bool same_header = file.bytes().size() >= header.size() &&
                             std::memcmp(file.bytes().data(), header.data(), header.size()) == 0;
    if (!same_header || file.keys().size() != wanted.values.size() ||
        file.tensors().size() != wanted.tensors.size()) {
        return Error{ErrorKind::io, "the file reads back different from what was written"};
    }
    return {};
}

}  // namespace

Status GgufWriter::Impl::produce_tensor(AtomicFile & file, const PendingTensor & tensor) const {
    const TensorInfo & info = tensor.info;
    const uint64_t row_bytes = ggml_row_size(info.type, info.ne[0]);
    const uint64_t rows = info.n_bytes / row_bytes;
    const uint64_t rows_per_piece = std::min(rows, std::max<uint64_t>(1, kPieceBytes / row_bytes));
    std::vector<std::byte> piece(rows_per_piece * row_bytes);
    for (uint64_t row = 0; row < rows; row += rows_per_piece) {
        const std::span<std::byte> part =
            std::span(piece).first(std::min(rows_per_piece, rows - row) * row_bytes);
        LUMI_TRY(tensor.fill(row, part));
        LUMI_TRY(check_finite(info, row * static_cast<uint64_t>(info.ne[0]), part));
        LUMI_TRY(file.write(part));
    }
    return {};
}

Status GgufWriter::Impl::write_tensor(AtomicFile & file, const PendingTensor & tensor) const {
    if (tensor.fill) {
        LUMI_TRY(produce_tensor(file, tensor));
    } else {
        LUMI_TRY(check_finite(tensor.info, 0, tensor.data));
        LUMI_TRY(file.write(tensor.data));
    }
    uint64_t padded = 0;
    if (!checked_align(file.position(), kGgufDefaultAlignment, padded)) {
        return Error{ErrorKind::internal, "file position past 64 bits"};
    }
    return file.write_zeros(padded - file.position());
}

Status GgufWriter::write(const std::string & path, const FileOps & ops) {
    const std::string context = "writing " + quoted(path, 1024);
    const auto attempt = [&]() -> Status {
        LUMI_TRY(impl_->place_tensors());
        const std::string bytes = impl_->header();
        const auto header = parse_gguf_header(std::as_bytes(std::span(bytes)));
        if (!header) {
            return Error{ErrorKind::invalid_argument, header.error().message};
        }
        AtomicFile file = LUMI_TRY(AtomicFile::create(path, ops));
        LUMI_TRY(file.write(bytes));
        LUMI_TRY(file.write_zeros(header->data_offset - bytes.size()));
        for (const PendingTensor & tensor : impl_->tensors) {
            LUMI_TRY(impl_->write_tensor(file, tensor));
        }
        LUMI_TRY(check_written(file.temp_path(), bytes, *header));
        return file.commit();
    };
    const Status done = attempt();
    return done ? done : done.error().within(context);
}

}  // namespace lumi
