// The resident model: one compute thread owns the device, everybody else queues jobs. Answers go
// first; training runs in slices between them. Adapters are immutable revisions behind one pointer:
// a finished training publishes a new one, clear publishes none, requests under way keep theirs.
#pragma once

#include "session/generation.h"
#include "train/trainer.h"

#include <future>
#include <optional>

namespace lumi {

struct EngineOptions {
    ModelOptions model;
    SessionOptions session;
};

struct TextRequest {
    std::vector<Message> messages;  // either messages ...
    std::string prompt;             // ... or a raw prompt (BOS is added, specials parsed as text)
    bool is_chat = false;
    bool think = false;
    std::vector<Tool> tools;
    GenerationOptions generation;
    bool use_memory = true;  // apply the published adapter
};

// Called on the compute thread; returning false cancels the request.
struct TextSink {
    std::function<bool(const OutputDelta & delta, const GenerationStep & step)> on_delta;
};

struct TextResult {
    std::string content;
    std::string reasoning;
    std::vector<ToolCall> tool_calls;
    std::vector<int32_t> tokens;
    FinishReason finish = FinishReason::none;
    GenerationTimes times;
    std::string revision;  // of the adapter that answered; empty for the base
};

struct TrainRequest {
    std::vector<std::vector<Message>> chats;
    std::string corpus;  // JSONL or plain text, see train/dataset.h
    TrainOptions options;
    double validation_share = 0.0;
    bool from_base = false;  // false: continue from the published revision
};

struct TrainResult {
    std::string job;
    std::string revision;
    TrainSummary summary;
};

struct EngineStatus {
    std::string model_name;
    std::string revision;  // published adapter, empty for none
    bool training = false;
    TrainProgress training_progress;
    int queued = 0;
    uint64_t requests_done = 0;
    uint64_t memory_bytes = 0;  // of the published adapter
};

class Engine {
  public:
    static Result<std::unique_ptr<Engine>> open(GgufFile file, const EngineOptions & options);
    ~Engine();  // cancels what runs and joins the thread

    const Model & model() const;
    const Tokenizer & tokenizer() const;
    const ChatFormat * chat_format() const;  // null when the family has no renderer

    // Any thread. The future is ready when the job ended; cancel may be set at any time.
    std::future<Result<TextResult>> submit(TextRequest request, TextSink sink,
                                           std::shared_ptr<CancelToken> cancel);
    std::future<Result<TrainResult>> train(TrainRequest request,
                                           std::function<void(const TrainProgress &)> on_progress,
                                           std::shared_ptr<CancelToken> cancel);
    // Publishes no adapter: the base answers again, bit for bit.
    std::future<Status> clear_memory();
    std::future<Status> load_memory(AdapterData adapter, float scale, std::string revision);
    Result<AdapterData> memory() const;  // the published adapter; error when none
    EngineStatus status() const;

  private:
    struct Impl;
    explicit Engine(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi
