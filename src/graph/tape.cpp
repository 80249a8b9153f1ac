// Records vector-Jacobian products and plays them back; knows nothing about any operation.
#include "graph/tape.h"

#include <algorithm>

namespace lumi {
namespace {

std::string described(const ggml_tensor * t) {
    return std::string(ggml_op_desc(t)) + " '" + t->name + "' [" + std::to_string(t->ne[0]) + ", " +
           std::to_string(t->ne[1]) + ", " + std::to_string(t->ne[2]) + "]";
}

// Calls visit with every tensor that t is computed from. A view's source is what it was made of;
// its view_src is the whole that lies below, past records in between.
template <typename Visit> void for_each_source(const ggml_tensor * t, Visit visit) {
    for (const ggml_tensor * source : t->src) {
        if (source != nullptr) {
            visit(source);
        }
    }
}

}  // namespace

// Looks for ways from an output to a watched leaf that the record does not cover
// (cases/training.md L10, L11: a missing adjoint that nobody notices).
class Tape::Coverage {
  public:
    explicit Coverage(const Tape & tape) : tape_(tape) {
        for (const Entry & entry : tape.entries_) {
            by_output_[entry.out] = &entry;
        }
    }

    // What is wrong on the way down from t; empty when nothing is.
    std::string objection(const ggml_tensor * t) {
        if (is_leaf(t) || !depends(t) || !checked_.insert(t).second) {
            return {};
        }
        const auto found = by_output_.find(t);
        if (found == by_output_.end()) {
            return described(t) + " has no adjoint";
        }
        inside_.clear();
        std::vector<const ggml_tensor *> reached;
        std::string why = collect(*found->second, t, reached);
        for (size_t i = 0; why.empty() && i < reached.size(); ++i) {
            why = objection(reached[i]);
        }
        return why;
    }

  private:
    bool is_leaf(const ggml_tensor * t) const { return tape_.leaves_.count(t) > 0; }

    // Whether t is computed from a watched leaf, or is one.
    bool depends(const ggml_tensor * t) {
        if (is_leaf(t)) {
            return true;
        }
        const auto known = depends_.find(t);
        if (known != depends_.end()) {
            return known->second;
        }
        bool any = false;
        for_each_source(t, [&](const ggml_tensor * source) { any = depends(source) || any; });
        depends_[t] = any;
        return any;
    }

    // Walks the tensors that belong to the entry; adds its inputs to reached.
    std::string collect(const Entry & entry, const ggml_tensor * t,
                        std::vector<const ggml_tensor *> & reached) {
        std::string why;
        for_each_source(t, [&](const ggml_tensor * source) {
            if (!why.empty() || !depends(source) || !inside_.insert(source).second) {
                return;
            }
            const auto & inputs = entry.inputs;
            if (std::find(inputs.begin(), inputs.end(), source) != inputs.end()) {
                reached.push_back(source);
            } else if (is_leaf(source)) {
                why = "the adjoint of " + described(entry.out) + " does not know of its input '" +
                      source->name + "'";
            } else {
                why = collect(entry, source, reached);
            }
        });
        return why;
    }

    const Tape & tape_;
    std::unordered_map<const ggml_tensor *, const Entry *> by_output_;
    std::unordered_map<const ggml_tensor *, bool> depends_;
    std::unordered_set<const ggml_tensor *> checked_;
    std::unordered_set<const ggml_tensor *> inside_;  // of the entry being walked
};

void Tape::record(ggml_tensor * out, const std::vector<ggml_tensor *> & inputs, Vjp vjp) {
    for (const ggml_tensor * input : inputs) {
        if (wants(input)) {
            wanted_[out] = nullptr;
            entries_.push_back({out, inputs, std::move(vjp)});
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
    touched_.insert(t);
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
    Coverage coverage(*this);
    for (const auto & [out, gradient] : seeds) {
        if (gradient == nullptr) {
            continue;
        }
        if (std::string why = coverage.objection(out); !why.empty()) {
            fail(std::move(why));
            return;
        }
        add_grad(out, gradient);
    }
    // Every consumer of a tensor was recorded after it, so its gradient is complete when met.
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
        if (ggml_tensor * d_out = grad(entry->out)) {
            play(*entry, d_out);
        }
    }
}

void Tape::play(const Entry & entry, ggml_tensor * d_out) {
    touched_.clear();
    entry.vjp(d_out);
    for (const ggml_tensor * input : entry.inputs) {
        if (wants(input) && touched_.count(input) == 0) {
            fail("the adjoint of " + described(entry.out) + " gives no gradient for its input " +
                 described(input));
        }
    }
}

void Tape::fail(std::string why) {
    if (failure_.empty()) {
        failure_ = std::move(why);
    }
}

}  // namespace lumi
