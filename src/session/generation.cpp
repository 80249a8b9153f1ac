// One step of a generation is a prefill chunk or a token; each token passes sampler, decoder, rules.
#include "session/generation.h"

#include <algorithm>
#include <atomic>
#include <chrono>

namespace lumi {
namespace {

constexpr int kMaxLogProbabilities = 100;
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;
// The same control or unused token so many times in a row is a model (or a backend) gone wrong.
constexpr int kMaxSameOddToken = 64;  // cases/inference.md M4, M5

Error bad_option(const std::string & field, const std::string & found,
                 const std::string & allowed) {
    return {ErrorKind::invalid_argument, field + " is " + found + ", allowed is " + allowed};
}

Status check_options(const GenerationOptions & options, int n_vocab) {
    if (options.max_tokens < -1) {
        return bad_option("max_tokens", std::to_string(options.max_tokens),
                          "-1 (no limit) or more");
    }
    const int most = std::min(kMaxLogProbabilities, n_vocab);
    if (options.n_log_probabilities < 0 || options.n_log_probabilities > most) {
        return bad_option("n_log_probabilities", std::to_string(options.n_log_probabilities),
                          "0 to " + std::to_string(most));
    }
    if (options.stops.size() > kMaxStops) {
        return bad_option("the number of stop texts", std::to_string(options.stops.size()),
                          "0 to " + std::to_string(kMaxStops));
    }
    for (const std::string & stop : options.stops) {
        if (stop.size() > kMaxStopBytes) {
            return bad_option("a stop text's length", std::to_string(stop.size()),
                              "up to " + std::to_string(kMaxStopBytes) + " bytes");
        }
    }
    return options.sampler.check(n_vocab);
}

// The options' sampler with what the vocabulary says is never to be generated.
SamplerOptions sampler_options(const GenerationOptions & options, const Tokenizer & tokenizer,
                               int n_vocab) {
    SamplerOptions sampler = options.sampler;
    for (const TokenId token : tokenizer.suppressed()) {
        if (token >= 0 && token < n_vocab) {
            sampler.suppressed.push_back(token);
        }
    }
    return sampler;
}

// Adds the time since construction to a sum.
class Stopwatch {
  public:
    explicit Stopwatch(double & sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
    Stopwatch(const Stopwatch &) = delete;
    Stopwatch & operator=(const Stopwatch &) = delete;
    ~Stopwatch() {
        sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

  private:
    double & sum_;
    std::chrono::steady_clock::time_point start_;
};

}  // namespace

const char * finish_reason_name(FinishReason reason) {
    switch (reason) {
    case FinishReason::end_token:
        return "end_token";
    case FinishReason::stop_text:
        return "stop_text";
    case FinishReason::length:
        return "length";
    case FinishReason::context_full:
        return "context_full";
    case FinishReason::cancelled:
        return "cancelled";
    case FinishReason::repetition:
        return "repetition";
    case FinishReason::none:
        break;
    }
    return "none";
}

struct Generation::Impl {
    Impl(Session & s, const Tokenizer & t, std::vector<int32_t> prompt, const GenerationOptions & o)
        : session(s), tokenizer(t), options(o), history(std::move(prompt)),
          sampler(sampler_options(o, t, n_vocab(s)), n_vocab(s)),
          decoder(t, o.stops, o.with_special) {}

    static int n_vocab(const Session & session) { return session.model().config().n_vocab; }

    Result<GenerationStep> prefill() {
        const Stopwatch watch(times.prefill_seconds);
        prefilled = LUMI_TRY(session.prefill_step());
        GenerationStep step;
        if (prefilled && options.max_tokens == 0) {
            finish(step, FinishReason::length);
        }
        return step;
    }

    // Evaluates the token chosen last, if any, and chooses the next.
    Result<GenerationStep> next_token() {
        const Stopwatch watch(times.decode_seconds);
        if (!generated.empty()) {
            LUMI_TRY(session.decode(generated.back()));
        }
        GenerationStep step;
        step.token = LUMI_TRY(sampler.sample(session.logits(), history));
        if (options.n_log_probabilities > 0) {
            step.log_probabilities = LUMI_TRY(
                Sampler::top_log_probabilities(session.logits(), options.n_log_probabilities));
            const float chosen = LUMI_TRY(Sampler::log_probability(session.logits(), step.token));
            step.log_probabilities.insert(step.log_probabilities.begin(), {step.token, chosen});
        }
        take(step);
        return step;
    }

    // The token becomes part of the answer: its text, and whether it is the last.
    void take(GenerationStep & step) {
        const TokenId token = step.token;
        same_token = !generated.empty() && generated.back() == token ? same_token + 1 : 1;
        generated.push_back(token);
        history.push_back(token);
        times.generated_tokens = static_cast<int>(generated.size());
        if (tokenizer.is_end(token) && !options.ignore_end) {
            return finish(step, FinishReason::end_token);
        }
        step.text = decoder.push(token);
        if (decoder.stopped()) {
            return finish(step, FinishReason::stop_text);
        }
        const TokenType type = tokenizer.type(token);
        const bool odd = type == TokenType::control || type == TokenType::unused;
        if (odd && same_token >= kMaxSameOddToken) {
            return finish(step, FinishReason::repetition);
        }
        if (options.max_tokens >= 0 && times.generated_tokens >= options.max_tokens) {
            return finish(step, FinishReason::length);
        }
        if (session.n_past() >= session.options().n_ctx) {
            return finish(step, FinishReason::context_full);
        }
    }

    void finish(GenerationStep & step, FinishReason why) {
        step.text += decoder.finish();
        step.done = true;
        reason = why;
    }

    Session & session;
    const Tokenizer & tokenizer;
    GenerationOptions options;
    std::vector<int32_t> history;  // prompt and answer
    Sampler sampler;
    StreamDecoder decoder;
    std::vector<int32_t> generated;
    int same_token = 0;
    bool prefilled = false;
    std::atomic<bool> cancelled = false;
    FinishReason reason = FinishReason::none;
    GenerationTimes times;
};

Generation::Generation(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Generation::~Generation() = default;

Result<std::unique_ptr<Generation>> Generation::start(Session & session,
                                                      const Tokenizer & tokenizer,
                                                      std::vector<int32_t> prompt,
                                                      const GenerationOptions & options) {
    LUMI_TRY(check_options(options, session.model().config().n_vocab));
    const uint64_t reused_before = session.counters().prompt_tokens_reused;
    LUMI_TRY(session.begin(prompt));
    auto impl = std::make_unique<Impl>(session, tokenizer, std::move(prompt), options);
    impl->times.prompt_tokens = static_cast<int>(impl->history.size());
    impl->times.reused_tokens =
        static_cast<int>(session.counters().prompt_tokens_reused - reused_before);
    return std::unique_ptr<Generation>(new Generation(std::move(impl)));
}

Result<GenerationStep> Generation::step() {
    if (impl_->reason != FinishReason::none) {
        return Error{ErrorKind::internal, "a step after the generation's end"};
    }
    if (impl_->cancelled.load(std::memory_order_relaxed)) {
        GenerationStep step;
        impl_->finish(step, FinishReason::cancelled);
        return step;
    }
    Result<GenerationStep> step = impl_->prefilled ? impl_->next_token() : impl_->prefill();
    if (!step.ok() && step.error().kind == ErrorKind::numeric) {
        impl_->session.clear();  // what is cached may be as broken as what came out
    }
    return step;
}

void Generation::cancel() {
    impl_->cancelled.store(true, std::memory_order_relaxed);
}
FinishReason Generation::finish_reason() const {
    return impl_->reason;
}
const GenerationTimes & Generation::times() const {
    return impl_->times;
}
const std::vector<int32_t> & Generation::generated() const {
    return impl_->generated;
}

}  // namespace lumi
