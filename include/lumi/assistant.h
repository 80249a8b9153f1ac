// The library's front door: a resident model that answers, learns and forgets. Plain types only.
//
//     auto opened = lumi::Assistant::open("model.gguf", {});
//     auto answer = (*opened)->chat({{"user", "What is my dog called?"}}, {});
//     auto lesson = (*opened)->teach({{{"user", "What is my dog called?"},
//                                      {"assistant", "Your dog is called Pixel."}}}, {});
//     (*opened)->forget();
#pragma once

#include <lumi/error.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lumi {

struct AssistantOptions {
    std::string device = "auto";  // auto, cpu, Vulkan0, CUDA0, ...
    int n_threads = 0;            // 0 = physical cores
    int n_ctx = 4096;             // tokens a conversation can hold, capped to the model's own limit
    bool repack = true;           // CPU: keep a repacked copy of the weights when memory allows
};

struct ChatTurn {
    std::string role;  // system, user, assistant
    std::string content;
};

struct AnswerOptions {
    int max_tokens = -1;        // -1 = until the context is full
    float temperature = -1.0F;  // -1 = the model's own; 0 = greedy
    uint64_t seed = 42;
    std::vector<std::string> stops;
    // Called with each piece of text, on the compute thread; returning false stops the answer.
    std::function<bool(const std::string & text)> on_text;
};

struct AnswerText {
    std::string text;
    int prompt_tokens = 0;
    int answer_tokens = 0;
    std::string finish_reason;  // stop, length, ...
};

struct LessonOptions {
    int epochs = 20;
    int rank = 8;                // alpha is twice the rank
    float learning_rate = 0.0F;  // 0 = by the model's width (0.384 / n_embd)
    uint64_t seed = 42;
    bool from_base = false;  // false: continue from what was learnt before
};

struct LessonReport {
    std::vector<double> losses;  // per supervised token, one an epoch
    double seconds = 0;
    std::string revision;
};

// All methods may be called from any thread; each waits for its own job. One compute thread owns
// the model, answers go before training.
class Assistant {
  public:
    // Maps and checks the file, loads the weights, starts the compute thread.
    static Result<std::unique_ptr<Assistant>> open(const std::string & path,
                                                   const AssistantOptions & options);
    virtual ~Assistant() = default;

    virtual Result<AnswerText> chat(const std::vector<ChatTurn> & turns,
                                    const AnswerOptions & options) = 0;
    // Completes raw text, without the chat format.
    virtual Result<AnswerText> complete(const std::string & prompt,
                                        const AnswerOptions & options) = 0;
    // Learns the assistant's turns of these conversations; live at once, without a reload.
    virtual Result<LessonReport> teach(const std::vector<std::vector<ChatTurn>> & chats,
                                       const LessonOptions & options) = 0;
    // Drops everything learnt: the base answers again, bit for bit.
    virtual Status forget() = 0;
    // What was learnt, as a GGUF LoRA adapter in llama.cpp's format.
    virtual Status save_memory(const std::string & path) = 0;
    virtual Status load_memory(const std::string & path, float scale) = 0;
};

}  // namespace lumi
