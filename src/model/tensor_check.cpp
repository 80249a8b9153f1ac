// Every required tensor must be found and every tensor of the file known (cases/gguf.md G33, G34).

#include "model/tensor_check.h"

#include "base/utf8.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace lumi {

namespace {

std::string shape_text(std::span<const int64_t> ne) {
    std::string text = "[";
    for (size_t i = 0; i < ne.size(); ++i) {
        text += (i > 0 ? ", " : "") + std::to_string(ne[i]);
    }
    return text + "]";
}

// Vision and audio encoders that some publishers keep in the same file (cases/gguf.md G35).
bool is_foreign(std::string_view name) {
    return name.starts_with("v.") || name.starts_with("a.") || name.starts_with("mm.");
}

Status check_shape(const GgufFile & file, const TensorRole & role, const TensorInfo & info) {
    bool equal = true;
    for (size_t d = 0; d < 4; ++d) {
        equal &= info.ne[d] == (d < role.ne.size() ? role.ne[d] : 1);
    }
    if (!equal) {
        const auto n_dims = static_cast<size_t>(std::clamp(info.n_dims, 1, 4));
        return Error{ErrorKind::invalid_file, file.path() + ": tensor '" + role.name +
                                                  "' has the shape " +
                                                  shape_text({info.ne, n_dims}) +
                                                  ", the metadata ask for " + shape_text(role.ne)};
    }
    return {};
}

// Vectors are read by element-wise operations and become F32; matrices may be anything that ggml
// can dequantise, because that is what it can multiply.
Status check_type(const GgufFile & file, const TensorRole & role, const TensorInfo & info) {
    const bool is_float =
        info.type == GGML_TYPE_F32 || info.type == GGML_TYPE_F16 || info.type == GGML_TYPE_BF16;
    const bool usable =
        is_float || (role.ne.size() > 1 && ggml_get_type_traits(info.type)->to_float != nullptr);
    if (!usable) {
        return Error{ErrorKind::unsupported,
                     file.path() + ": tensor '" + role.name + "' has the type " +
                         ggml_type_name(info.type) + ", which cannot be used there; " +
                         (role.ne.size() > 1 ? "allowed are float and quantised weight types"
                                             : "allowed are F32, F16 and BF16")};
    }
    return {};
}

// "'blk.0.ffn_gate_exps.weight' and 11 more"
std::string unknown_text(const std::vector<std::string_view> & unknown) {
    return quoted(unknown.front()) +
           (unknown.size() > 1 ? " and " + std::to_string(unknown.size() - 1) + " more" : "");
}

}  // namespace

Result<std::vector<BoundTensor>> bind_tensors(const GgufFile & file, const Config & config,
                                              std::vector<TensorRole> roles) {
    std::unordered_set<std::string_view> known;
    for (const TensorRole & role : roles) {
        known.insert(role.name);
    }
    std::vector<std::string_view> unknown;
    for (const TensorInfo & info : file.tensors()) {
        if (!known.contains(info.name) && !is_foreign(info.name)) {
            unknown.push_back(info.name);
        }
    }
    const std::string arch = arch_name(config.arch);
    std::vector<BoundTensor> bound;
    bound.reserve(roles.size());
    for (TensorRole & role : roles) {
        const TensorInfo * info = file.find_tensor(role.name);
        if (info == nullptr) {
            if (!role.required) {
                continue;
            }
            return Error{ErrorKind::invalid_file,
                         file.path() + ": tensor '" + role.name + "' is missing; a " + arch +
                             " model needs it" +
                             (unknown.empty() ? ""
                                              : ", while the file has the unknown tensor " +
                                                    unknown_text(unknown))};
        }
        LUMI_TRY(check_shape(file, role, *info));
        LUMI_TRY(check_type(file, role, *info));
        bound.push_back({std::move(role), info});
    }
    if (!unknown.empty()) {
        return Error{ErrorKind::unsupported, file.path() + ": a " + arch + " model has no tensor " +
                                                 unknown_text(unknown) +
                                                 "; running without it could give wrong answers"};
    }
    return bound;
}

}  // namespace lumi
