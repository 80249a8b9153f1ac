// Reverse-mode differentiation in forward operations. Graph functions record, next to the tensors
// they make, how a gradient of their output becomes gradients of their inputs; backward() plays the
// record in reverse. Everything it emits is an ordinary ggml operation of the allowed set.
#pragma once

#include <ggml.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lumi {

class Tape {
  public:
    explicit Tape(ggml_context * ctx) : ctx_(ctx) {}

    // Marks a leaf whose gradient is wanted.
    void watch(ggml_tensor * leaf) {
        wanted_[leaf] = nullptr;
        leaves_.insert(leaf);
    }
    // True when a gradient of t is wanted: t is watched or computed from something watched.
    bool wants(const ggml_tensor * t) const { return wanted_.count(t) > 0; }

    // Records out = f(inputs). vjp receives the gradient of out (contiguous F32) and must call
    // add_grad for every input it wants() one for. Not recorded when no input is wanted. Whatever
    // lies between out and inputs belongs to f: nothing else in there may lead to a watched leaf.
    using Vjp = std::function<void(ggml_tensor * d_out)>;
    void record(ggml_tensor * out, const std::vector<ggml_tensor *> & inputs, Vjp vjp);

    // Adds g (same shape as t, F32, contiguous) to the gradient of t; ignored when not wanted.
    void add_grad(ggml_tensor * t, ggml_tensor * g);
    // The gradient gathered so far; null when nothing reached t.
    ggml_tensor * grad(const ggml_tensor * t) const;

    // CONT(TRANSPOSE(t)) of a matrix, made once per tape however many functions ask for it.
    ggml_tensor * transposed(ggml_tensor * t);

    // Seeds the outputs' gradients and plays the record in reverse. Null seeds are skipped. Fails
    // by name, rather than losing a gradient, when an output depends on a watched leaf through a
    // tensor that nothing recorded, or when a record gives no gradient for an input it has to.
    void backward(std::initializer_list<std::pair<ggml_tensor *, ggml_tensor *>> seeds);

    // Says that a gradient cannot be formed; the first reason stays. Checked after backward().
    void fail(std::string why);
    const std::string & failure() const { return failure_; }  // empty: none

  private:
    struct Entry {
        ggml_tensor * out;
        std::vector<ggml_tensor *> inputs;
        Vjp vjp;
    };
    class Coverage;
    void play(const Entry & entry, ggml_tensor * d_out);

    ggml_context * ctx_;
    std::vector<Entry> entries_;
    std::unordered_set<const ggml_tensor *> leaves_;                 // watched
    std::unordered_map<const ggml_tensor *, ggml_tensor *> wanted_;  // tensor -> gradient so far
    std::unordered_set<const ggml_tensor *> touched_;                // by the adjoint being played
    std::unordered_map<const ggml_tensor *, ggml_tensor *> transposes_;
    std::string failure_;
};

}  // namespace lumi
