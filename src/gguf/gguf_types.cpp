// Names and sizes of the format's value types, and the checked size of a tensor.
#include "gguf/gguf_types.h"

#include "base/checked.h"

namespace lumi {

const char * gguf_type_name(GgufType type) {
    static constexpr const char * kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                              "bool", "string", "array", "u64", "i64", "f64"};
    const auto index = static_cast<uint32_t>(type);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

uint64_t gguf_value_bytes(GgufType type) {
    static constexpr uint8_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const auto index = static_cast<uint32_t>(type);
    return index < std::size(kBytes) ? kBytes[index] : 0;
}

bool known_tensor_type(uint32_t type) {
    if (type >= GGML_TYPE_COUNT) {
        return false;
    }
    const ggml_type_traits * traits = ggml_get_type_traits(static_cast<ggml_type>(type));
    return traits->blck_size > 0 && traits->type_size > 0;
}

bool checked_tensor_bytes(ggml_type type, const int64_t ne[4], uint64_t & out) {
    if (!known_tensor_type(static_cast<uint32_t>(type))) {
        return false;
    }
    const ggml_type_traits * traits = ggml_get_type_traits(type);
    int64_t elements = 1;
    for (int i = 0; i < 4; ++i) {
        if (ne[i] < 1 || !checked_mul(elements, ne[i], elements)) {
            return false;
        }
    }
    if (ne[0] % traits->blck_size != 0) {
        return false;
    }
    const auto blocks = static_cast<uint64_t>(elements / traits->blck_size);
    return checked_mul<uint64_t>(blocks, traits->type_size, out);
}

}  // namespace lumi
