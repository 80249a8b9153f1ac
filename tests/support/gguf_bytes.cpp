#include "support/gguf_bytes.h"

namespace lumi {

std::string raw_text(std::string_view text) {
    return raw(static_cast<uint64_t>(text.size())) + std::string(text);
}

std::string numbered(std::string prefix, uint64_t number) {
    prefix += std::to_string(number);
    return prefix;
}

GgufBytes & GgufBytes::key(std::string name, uint32_t type, std::string value_bytes) {
    keys_.push_back({std::move(name), type, std::move(value_bytes)});
    return *this;
}

GgufBytes & GgufBytes::array(std::string name, uint32_t element, uint64_t count,
                             std::string bytes) {
    return key(std::move(name), 9, raw(element) + raw(count) + bytes);
}

GgufBytes & GgufBytes::texts(std::string name, const std::vector<std::string> & values) {
    std::string bytes;
    for (const std::string & value : values) {
        bytes += raw_text(value);
    }
    return array(std::move(name), 8, values.size(), bytes);
}

GgufBytes & GgufBytes::tensor(std::string name, std::vector<uint64_t> ne, uint32_t type,
                              uint64_t n_bytes) {
    tensors_.push_back({std::move(name), std::move(ne), type, n_bytes});
    return *this;
}

std::string GgufBytes::build() const {
    std::map<std::string, size_t> ignored;
    return build(ignored);
}

std::string GgufBytes::build(std::map<std::string, size_t> & at) const {
    std::string out;
    const auto put = [&](const std::string & field, const std::string & bytes) {
        at.emplace(field, out.size());
        out += bytes;
    };
    put("magic", "GGUF");
    put("version", raw(version));
    put("n_tensors", raw(static_cast<uint64_t>(tensors_.size())));
    put("n_keys", raw(static_cast<uint64_t>(keys_.size())));
    for (const Key & key : keys_) {
        put(key.name + "/name", raw(static_cast<uint64_t>(key.name.size())));
        put(key.name + "/text", key.name);
        put(key.name + "/type", raw(key.type));
        at.emplace(key.name + "/element", out.size());
        at.emplace(key.name + "/count", out.size() + 4);
        put(key.name + "/value", key.bytes);
    }
    uint64_t offset = 0;
    for (const Tensor & tensor : tensors_) {
        put(tensor.name + "/name", raw(static_cast<uint64_t>(tensor.name.size())));
        put(tensor.name + "/text", tensor.name);
        put(tensor.name + "/n_dims", raw(static_cast<uint32_t>(tensor.ne.size())));
        for (size_t i = 0; i < tensor.ne.size(); ++i) {
            put(numbered(tensor.name + "/ne", i), raw(tensor.ne[i]));
        }
        put(tensor.name + "/type", raw(tensor.type));
        put(tensor.name + "/offset", raw(offset));
        offset = (offset + tensor.n_bytes + 31) / 32 * 32;
    }
    at.emplace("end", out.size());
    if (!tensors_.empty()) {
        const size_t data = (out.size() + 31) / 32 * 32;
        at.emplace("data", data);
        const uint64_t tail = (tensors_.back().n_bytes + 31) / 32 * 32 - tensors_.back().n_bytes;
        out.resize(data + offset - tail, '\0');
    }
    return out;
}

size_t GgufBytes::at(const std::string & field) const {
    std::map<std::string, size_t> at;
    build(at);
    return at.at(field);
}

std::string GgufBytes::patched_bytes(const std::string & field, std::string_view bytes) const {
    std::string out = build();
    const size_t start = at(field);
    if (start + bytes.size() > out.size()) {
        throw std::out_of_range("patch past the end of the file");
    }
    out.replace(start, bytes.size(), bytes);
    return out;
}

GgufBytes good_gguf() {
    GgufBytes file;
    file.text("general.architecture", "tiny")
        .u32("tiny.block_count", 2)
        .key("a.u8", 0, raw<uint8_t>(200))
        .key("a.i8", 1, raw<int8_t>(-100))
        .key("a.u16", 2, raw<uint16_t>(60000))
        .key("a.i16", 3, raw<int16_t>(-30000))
        .key("a.i32", 5, raw<int32_t>(-2000000000))
        .key("a.f32", 6, raw(0.5F))
        .key("a.bool", 7, raw<uint8_t>(1))
        .key("a.u64", 10, raw<uint64_t>(1ULL << 40))
        .key("a.i64", 11, raw<int64_t>(-(1LL << 40)))
        .key("a.f64", 12, raw(0.25))
        .texts("tokenizer.ggml.tokens", {"<bos>", "a",
                                         "\xe2\x96\x81"
                                         "b"})
        .array("tokenizer.ggml.scores", 6, 3, raw(-1.0F, 0.0F, 2.5F))
        .array("tokenizer.ggml.token_type", 5, 3, raw<int32_t>(3, 1, 1))
        .array("a.bools", 7, 2, raw<uint8_t>(1, 0))
        .array("a.empty", 4, 0, "");
    file.tensor("token_embd.weight", {32, 3}, 0, 32 * 3 * 4)
        .tensor("blk.0.attn_q.weight", {64, 2, 1, 1}, 8, 2 * 2 * 34)
        .tensor("output_norm.weight", {32}, 0, 32 * 4);
    return file;
}

}  // namespace lumi
