// The resident model: one compute thread owns the device, everybody else queues jobs. Answers go
// first; training runs in slices between them. Adapters are immutable revisions behind one pointer:
// a finished training publishes a new one, clear publishes none, requests under way keep theirs.
#pragma once

#include "session/generation.h"
#include "train/trainer.h"

#include <future>
#include <memory>
#include <optional>

namespace lumi {

struct EngineOptions {
    ModelOptions model;
    SessionOptions session;
};

struct TextRequest {
    std::vector<Message> messages;  // a conversation ...
    std::string prompt;             // ... or a raw prompt (BOS is added, control texts are parsed)
    bool is_chat = false;
    bool think = false;
    std::vector<Tool> tools;
    GenerationOptions generation;
    bool use_memory = true;  // apply the published adapter
};

// Called on the compute thread for every piece; returning false cancels the request.
using TextSink = std::function<bool(const OutputDelta & delta, const GenerationStep & step)>;

struct TextResult {
    OutputDelta output;  // everything that was said
    std::vector<int32_t> tokens;
    FinishReason finish = FinishReason::none;
    GenerationTimes times;
    std::string revision;  // of the adapter that answered; empty for the base
};

struct TrainRequest {
    std::vector<std::vector<Message>> chats;
    std::string corpus;  // JSONL or plain text, see train/dataset.h
    TrainOptions options;
    std::string targets;  // as parse_targets takes them; empty = all
    bool assistant_only = true;
    double validation_share = 0.0;
    bool from_base = false;  // false: continue from the published revision
};

// What a lesson (a fact or a few chats, taught while serving) learns with unless told otherwise:
// rank 8, alpha 16, 20 epochs, up to eight conversations a step, and a learning rate that falls
// with the model's width (0.384 / n_embd: 1.5e-4 for E4B, 6e-4 for Gemma 3 270M, 3e-3 for the small
// model inside lumi).
TrainOptions lesson_options(int n_embd);

struct TrainResult {
    std::string revision;
    int samples = 0;
    TrainSummary summary;
};

struct EngineStatus {
    std::string model_name;
    std::string device;
    std::string revision;  // published adapter, empty for none
    uint64_t adapter_parameters = 0;
    bool training = false;
    TrainProgress progress;
    int queued = 0;
    uint64_t requests_done = 0;
    int n_ctx = 0;
    int n_embd = 0;  // of the model; lesson_options wants it
};

// What the server and the command line need of a resident model. Thread-safe. A scripted
// implementation stands in for it in server tests.
class Engine {
  public:
    virtual ~Engine() = default;

    // Futures are ready when the job ended. cancel may be set at any time, from any thread.
    virtual std::future<Result<TextResult>> submit(TextRequest request, TextSink sink,
                                                   std::shared_ptr<CancelToken> cancel) = 0;
    virtual std::future<Result<TrainResult>>
    train(TrainRequest request, std::function<void(const TrainProgress &)> on_progress,
          std::shared_ptr<CancelToken> cancel) = 0;
    // Publishes no adapter: the base answers again, bit for bit.
    virtual std::future<Status> clear_memory() = 0;
    virtual std::future<Status> load_memory(AdapterData adapter, float scale) = 0;
    virtual Result<AdapterData> memory() const = 0;  // the published adapter; error when none
    virtual EngineStatus status() const = 0;
};

// A model with everything needed to use it on one thread; what the command line works with.
struct LoadedModel {
    std::unique_ptr<Model> model;
    std::unique_ptr<Tokenizer> tokenizer;
    std::optional<ChatFormat> chat;  // none when the family has no renderer (raw prompts only)
    std::string chat_error;          // why not
};
Result<LoadedModel> load_model(GgufFile file, const ModelOptions & options);

// Default sampling for this model: general.sampling.* and the suppressed tokens.
SamplerOptions default_sampler(const LoadedModel & loaded);

// The rendered conversation, or BOS and the raw text.
Result<RenderedChat> render_prompt(const LoadedModel & loaded, const TextRequest & request);

// Takes the loaded model and starts the compute thread; cancelled and joined on destruction.
Result<std::unique_ptr<Engine>> start_engine(LoadedModel loaded, const SessionOptions & options);

}  // namespace lumi
