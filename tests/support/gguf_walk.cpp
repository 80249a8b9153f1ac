#include "support/gguf_walk.h"

#include <cstring>

namespace lumi {

namespace {

// Every byte is read, so that a sanitizer sees a view that leaves the file.
unsigned touch(std::span<const std::byte> bytes) {
    unsigned sum = 0;
    for (const std::byte b : bytes) {
        sum += std::to_integer<unsigned>(b);
    }
    return sum;
}

class Walk {
  public:
    explicit Walk(const GgufFile & file) : file_(file) {}

    std::string run() {
        for (const std::string_view key : file_.keys()) {
            scalars(key);
            arrays(key);
        }
        for (const TensorInfo & tensor : file_.tensors()) {
            const auto data = file_.tensor_data(tensor);
            sink_ = sink_ + touch(data);
            expect(data.size() == tensor.n_bytes && !data.empty(), "tensor data", tensor.name);
            expect(file_.find_tensor(tensor.name) == &tensor, "find_tensor", tensor.name);
        }
        expect(file_.fingerprint().size() == 64, "fingerprint", file_.path());
        return what_;
    }

  private:
    void expect(bool held, const char * what, std::string_view where) {
        if (!held && what_.empty()) {
            what_ = std::string(what) + " of " + std::string(where);
        }
    }

    // The getter succeeds exactly when wanted, or says something.
    template <typename T>
    void check(const Result<T> & got, bool may_succeed, const char * what, std::string_view key) {
        expect(got.ok() ? may_succeed : !got.error().message.empty(), what, key);
    }

    void scalars(std::string_view key) {
        const GgufValue & value = *file_.find_value(key);
        const bool integer = value.type <= GgufType::i32 || value.type == GgufType::u64 ||
                             value.type == GgufType::i64;
        const bool floating = value.type == GgufType::f32 || value.type == GgufType::f64;
        check(file_.type_of(key), true, "type_of", key);
        check(file_.get_bool(key), value.type == GgufType::boolean, "get_bool", key);
        check(file_.get_u32(key), integer, "get_u32", key);
        check(file_.get_i64(key), integer, "get_i64", key);
        check(file_.get_f32(key), floating, "get_f32", key);
        const auto text = file_.get_string(key);
        check(text, value.type == GgufType::string, "get_string", key);
        if (text) {
            sink_ = sink_ + touch(std::as_bytes(std::span(text->data(), text->size())));
        }
        expect(!file_.value_text(key).empty(), "value_text", key);
    }

    void arrays(std::string_view key) {
        const GgufValue & value = *file_.find_value(key);
        const bool array = value.type == GgufType::array;
        expect(file_.is_array(key) == array, "is_array", key);
        check(file_.array_length(key), array, "array_length", key);
        check(file_.get_i32s(key), array, "get_i32s", key);
        check(file_.get_f32s(key), array, "get_f32s", key);
        check(file_.get_bools(key), array && value.element == GgufType::boolean, "get_bools", key);
        const auto texts = file_.get_strings(key);
        check(texts, array && value.element == GgufType::string, "get_strings", key);
        if (texts) {
            expect(texts->size() == value.count, "count", key);
            for (const std::string_view text : *texts) {
                sink_ = sink_ + touch(std::as_bytes(std::span(text.data(), text.size())));
            }
        }
    }

    const GgufFile & file_;
    std::string what_;
    volatile unsigned sink_ = 0;
};

}  // namespace

std::string walk_gguf(const GgufFile & file) {
    return Walk(file).run();
}

}  // namespace lumi
