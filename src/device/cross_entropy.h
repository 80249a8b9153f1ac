// The loss of a training graph on the CPU in two passes over the logits, as ggml custom operations;
// composed of ggml's it takes ten, half of which ggml runs on one thread.
#pragma once

#include <ggml.h>

namespace lumi {

// Logits are z = cap * tanh(u / cap), or u itself when cap is 0. u F32 [V, C] contiguous.

// -log softmax(z)[label] of each column and what its gradient needs: F32 [C, 3], rows of losses, of
// largest z and of 1 / sum of exp(z - largest). cells I32 [C]: where each column's label lies in
// the flat u.
ggml_tensor * cross_entropy(ggml_context * ctx, ggml_tensor * u, ggml_tensor * cells, float cap);

// The gradient of sum over C of weight * loss for u, written over u: (softmax(z) - one_hot(label))
// * weight * dz/du. known: cross_entropy's result; weight F32 [1, C]. Nothing may read u after it.
ggml_tensor * cross_entropy_gradient(ggml_context * ctx, ggml_tensor * u, ggml_tensor * known,
                                     ggml_tensor * cells, ggml_tensor * weight, float cap);

}  // namespace lumi
