// One answer in the making: session, sampler, stop rules and streaming text, advanced piece by
// piece.
#pragma once

#include "session/sampler.h"
#include "session/session.h"
#include "tokenizer/detokenizer.h"

namespace lumi {

enum class FinishReason : unsigned char {
    none,
    end_token,
    stop_text,
    length,
    context_full,
    cancelled,
    repetition
};
const char * finish_reason_name(FinishReason reason);

struct GenerationOptions {
    int max_tokens = -1;  // -1 = until the context is full
    std::vector<std::string> stops;
    bool ignore_end = false;
    bool with_special = false;  // show control texts in the stream (the chat parsers need it)
    int n_log_probabilities = 0;
    SamplerOptions sampler;
};

struct GenerationStep {
    std::string text;                                 // newly releasable text, whole code points
    int32_t token = -1;                               // -1 while still in prefill
    std::vector<TokenProbability> log_probabilities;  // chosen first, then the best n
    bool done = false;
};

struct GenerationTimes {
    double prefill_seconds = 0;
    double decode_seconds = 0;
    int prompt_tokens = 0;
    int reused_tokens = 0;
    int generated_tokens = 0;
};

class Generation {
  public:
    // Checks everything a request can get wrong and makes prompt the session's sequence; runs
    // nothing. Both must outlive the generation.
    static Result<std::unique_ptr<Generation>> start(Session & session, const Tokenizer & tokenizer,
                                                     std::vector<int32_t> prompt,
                                                     const GenerationOptions & options);
    // One prefill chunk or one token. After done, finish_reason() says why.
    Result<GenerationStep> step();
    void cancel();  // any thread; the next step ends the generation
    FinishReason finish_reason() const;
    const GenerationTimes & times() const;
    const std::vector<int32_t> & generated() const;  // the end token included
    ~Generation();

  private:
    struct Impl;
    explicit Generation(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi
