// Q4_K_M: the embedding table Q6_K, attn_v and ffn_down Q6_K in the first and last eighth of the
// layers and every third between, the PLE table Q5_K, its projection BF16, everything else Q4_K.

#include "synth/tensor_types.h"

#include "base/utf8.h"

#include <strings.h>

namespace lumi {

namespace {

struct NamedType {
    const char * name;
    ggml_type type;
    bool mixed;
    uint32_t file_type;
};

constexpr NamedType kTypes[] = {
    {"Q4_K_M", GGML_TYPE_Q4_K, true, 15}, {"F32", GGML_TYPE_F32, false, 0},
    {"F16", GGML_TYPE_F16, false, 1},     {"BF16", GGML_TYPE_BF16, false, 32},
    {"Q4_0", GGML_TYPE_Q4_0, false, 2},   {"Q4_1", GGML_TYPE_Q4_1, false, 3},
    {"Q5_0", GGML_TYPE_Q5_0, false, 8},   {"Q5_1", GGML_TYPE_Q5_1, false, 9},
    {"Q8_0", GGML_TYPE_Q8_0, false, 7},   {"Q4_K", GGML_TYPE_Q4_K, false, 14},
    {"Q5_K", GGML_TYPE_Q5_K, false, 16},  {"Q6_K", GGML_TYPE_Q6_K, false, 18},
};

// Rows that are no multiple of 256 cannot hold K-quants; the next larger simple type replaces them.
ggml_type fitting(ggml_type type, int64_t n_in) {
    if (n_in % ggml_blck_size(type) == 0) {
        return type;
    }
    if (n_in % 32 != 0) {
        return GGML_TYPE_F16;
    }
    switch (type) {
    case GGML_TYPE_Q4_K:
        return GGML_TYPE_Q5_0;
    case GGML_TYPE_Q5_K:
        return GGML_TYPE_Q5_1;
    default:
        return GGML_TYPE_Q8_0;
    }
}

bool gets_more_bits(int layer, int n_layer) {
    const int eighth = n_layer / 8;
    return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

}  // namespace

Result<TensorTypes> TensorTypes::parse(std::string_view name) {
    std::string known;
    for (const NamedType & row : kTypes) {
        if (strcasecmp(std::string(name).c_str(), row.name) == 0) {
            return TensorTypes(row.type, row.mixed, row.file_type);
        }
        known += std::string(known.empty() ? "" : ", ") + row.name;
    }
    return Error{ErrorKind::invalid_argument,
                 "the type " + quoted(name) + " is not known; known are " + known};
}

ggml_type TensorTypes::of(const TensorRole & role, int n_layer) const {
    if (role.ne.size() < 2) {
        return GGML_TYPE_F32;
    }
    ggml_type type = base_;
    int layer = 0;
    Module module = Module::q;
    if (mixed_) {
        if (role.name == "token_embd.weight") {
            type = GGML_TYPE_Q6_K;
        } else if (role.name == "per_layer_token_embd.weight") {
            type = GGML_TYPE_Q5_K;
        } else if (role.name == "per_layer_model_proj.weight") {
            type = GGML_TYPE_BF16;
        } else if (parse_module_weight_name(role.name, layer, module) &&
                   (module == Module::v || module == Module::down) &&
                   gets_more_bits(layer, n_layer)) {
            type = GGML_TYPE_Q6_K;
        }
    }
    return fitting(type, role.ne[0]);
}

}  // namespace lumi
