// A tiny Gemma 4 with random weights, loaded once a process, and sessions on it. Window 8, layers
// 0-4 own K/V (2 and 4 global), 5-7 share; context 512, vocabulary 512.
#pragma once

#include "session/session.h"

#include <string>
#include <vector>

namespace lumi::test {

// One thread: the machines that run tests are shared, and waiting threads cost more than they help.
const Model & tiny_model(const std::string & type = "F32", bool repack = false,
                         const std::string & shape = "tiny");

// F32 cache, plain attention, everything in one batch: what others are compared with.
SessionOptions reference_options();
SessionOptions small_batches(int n_batch);

std::unique_ptr<Session> make_session(const Model & model, const SessionOptions & options);

// Tokens of no meaning, the same for the same seed.
std::vector<int32_t> random_tokens(uint64_t seed, int n);

// Logits after the last of tokens, by begin and prefill.
std::vector<float> logits_after(Session & session, const std::vector<int32_t> & tokens);
// The same from a new reference session that has cached nothing.
std::vector<float> fresh_logits(const Model & model, const std::vector<int32_t> & tokens,
                                const std::vector<AppliedAdapter> & adapters = {});

// max |a - b| / max |b|.
double relative_difference(std::span<const float> a, std::span<const float> b);

// A random adapter on the given layers and modules, strong enough to change logits visibly.
AppliedAdapter random_adapter(const Model & model, std::vector<Module> modules, int first_layer,
                              int last_layer, const std::string & revision, float size = 0.5F);

}  // namespace lumi::test
