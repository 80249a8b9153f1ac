// What a session's options come to on a given model: limits applied, flash decided, memory planned.
#pragma once

#include "session/evaluator.h"
#include "session/session.h"

namespace lumi {

// The options as effective, or why they cannot be.
Result<SessionOptions> effective_options(const Model & model, SessionOptions options);
// True when attention runs as one flash operation; options are effective ones.
bool uses_flash(const SessionOptions & options);

ggml_type kv_ggml_type(KvType type);

// Cells, cache and evaluator of a session, not yet allocated.
struct SessionParts {
    KvCells cells;
    KvCache cache;
    Evaluator evaluator;
    SessionParts(const Model & model, const SessionOptions & options);
};

// Tokens a batch of evaluate() has, all rows wanted: bounds the logits that exist at once.
int evaluation_batch(const Model & model, const SessionOptions & options);

// "512 tokens, f16" and the like, for plans.
std::string kv_type_name(KvType type);

}  // namespace lumi
