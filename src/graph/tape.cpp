// Records vector-Jacobian products and plays them back; knows nothing about any operation.
#include "graph/tape.h"

namespace lumi {

void Tape::record(ggml_tensor * out, const std::vector<ggml_tensor *> & inputs, Vjp vjp) {
    for (const ggml_tensor * input : inputs) {
        if (wants(input)) {
            wanted_[out] = nullptr;
            entries_.push_back({out, std::move(vjp)});
            return;
        }
    }
}

void Tape::add_grad(ggml_tensor * t, ggml_tensor * g) {
    const auto found = wanted_.find(t);
    if (found == wanted_.end() || g == nullptr) {
        return;
    }
    if (!ggml_are_same_shape(t, g)) {
        fail(std::string("gradient of ") + ggml_op_name(t->op) + " '" + t->name +
             "' has another shape than the tensor");
        return;
    }
    found->second = found->second == nullptr ? g : ggml_add(ctx_, found->second, g);
}

ggml_tensor * Tape::grad(const ggml_tensor * t) const {
    const auto found = wanted_.find(t);
    return found == wanted_.end() ? nullptr : found->second;
}

ggml_tensor * Tape::transposed(ggml_tensor * t) {
    ggml_tensor *& made = transposes_[t];
    if (made == nullptr) {
        made = ggml_cont(ctx_, ggml_transpose(ctx_, t));
    }
    return made;
}

void Tape::backward(std::initializer_list<std::pair<ggml_tensor *, ggml_tensor *>> seeds) {
    for (const auto & [out, gradient] : seeds) {
        add_grad(out, gradient);
    }
    // Every consumer of a tensor was recorded after it, so its gradient is complete when met.
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
        if (ggml_tensor * d_out = grad(entry->out)) {
            entry->vjp(d_out);
        }
    }
}

void Tape::fail(std::string why) {
    if (failure_.empty()) {
        failure_ = std::move(why);
    }
}

}  // namespace lumi
