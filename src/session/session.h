// One conversation's place in a model: tokens in, logits out, with a KV cache that keeps the common
// prefix of successive prompts. Work happens in pieces (a prefill chunk, one token), so that the
// thread that owns the model can do other things between them. Not thread-safe.
#pragma once

#include "adapter/adapter.h"
#include "base/cancel.h"
#include "graph/decoder.h"
#include "model/model.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lumi {

enum class KvType : unsigned char { f16, f32, q8_0 };
enum class FlashMode : unsigned char { automatic, on, off };

struct SessionOptions {
    int n_ctx =
        4096;  // tokens a conversation can hold; capped to the model's own limit by create()
    int n_batch = 512;  // tokens of one prefill chunk
    KvType kv_type = KvType::f16;
    FlashMode flash = FlashMode::automatic;  // "on" where the device lacks it is an error
    bool exact = false;  // plain weights and plain attention: ggml's own products, for parity
};

// Adapters of a conversation. revision identifies the content (hash or counter): the cache is kept
// only when it is unchanged, or when no pair lies at or below the last K/V owner.
struct AppliedAdapter {
    std::shared_ptr<const DeviceAdapter> adapter;
    float scale = 1.0F;
    std::string revision;
};

struct SessionCounters {
    uint64_t prompt_tokens_evaluated = 0;
    uint64_t prompt_tokens_reused = 0;
    uint64_t tokens_decoded = 0;
    uint64_t layer_evaluations = 0;  // layers times tokens, see graph/decoder.h
};

class Session {
  public:
    // Plans memory first; the plan's text is in the error when it does not fit.
    static Result<std::unique_ptr<Session>> create(const Model & model,
                                                   const SessionOptions & options);
    static Result<MemoryPlan> plan(const Model & model, const SessionOptions & options);
    ~Session();

    const Model & model() const;
    const SessionOptions & options() const;  // as effective
    bool flash_in_use() const;
    const SessionCounters & counters() const;

    // Takes effect for tokens evaluated from now on; drops the sequence when its K/V cannot stay
    // valid (then begin() is next). Scale 0 means not applied.
    Status set_adapters(std::vector<AppliedAdapter> adapters);

    // Makes the session's sequence become `tokens`, keeping the cached common prefix (at least the
    // last token is evaluated again so that logits exist). More than n_ctx tokens is an
    // invalid_argument error with both numbers. Nothing is computed yet.
    Status begin(std::span<const int32_t> tokens);
    // Evaluates the next prefill chunk; true when the prompt is done and logits() is valid.
    Result<bool> prefill_step();
    // Appends one token and evaluates it. A full context is an error ("context is full (n)").
    Status decode(int32_t token);
    // Logits after the last evaluated token, [n_vocab]. Valid until the next call.
    std::span<const float> logits() const;

    int n_past() const;  // tokens in the sequence that are evaluated
    std::span<const int32_t> tokens() const;
    // Forgets the sequence and wipes the cache; needed after a numeric error.
    void clear();

    // Tokens evaluate() computes at once, all rows wanted.
    int evaluation_batch() const;
    // Logits at every position of a fresh sequence (for eval, parity): calls visit(position,
    // logits) in order. Replaces the session's sequence.
    Status
    evaluate(std::span<const int32_t> tokens,
             const std::function<Status(int position, std::span<const float> logits)> & visit);

  private:
    struct Impl;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi
