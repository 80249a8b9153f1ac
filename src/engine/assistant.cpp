// The public library's Assistant on top of the engine.
#include <lumi/assistant.h>

#include "engine/engine.h"

namespace lumi {

namespace {

Result<Role> role_of(const std::string & name) {
    if (name == "system") {
        return Role::system;
    }
    if (name == "user") {
        return Role::user;
    }
    if (name == "assistant") {
        return Role::assistant;
    }
    return Error{ErrorKind::invalid_argument,
                 "role: found \"" + name + "\"; allowed: system, user, assistant"};
}

Result<std::vector<Message>> messages_of(const std::vector<ChatTurn> & turns) {
    std::vector<Message> messages;
    for (const ChatTurn & turn : turns) {
        Message message;
        message.role = LUMI_TRY(role_of(turn.role));
        message.content = turn.content;
        messages.push_back(std::move(message));
    }
    return messages;
}

class EngineAssistant final : public Assistant {
  public:
    EngineAssistant(Config config, std::string fingerprint, SamplerOptions sampler,
                    std::unique_ptr<Engine> engine)
        : config_(std::move(config)), fingerprint_(std::move(fingerprint)),
          sampler_(std::move(sampler)), engine_(std::move(engine)) {}

    Result<AnswerText> chat(const std::vector<ChatTurn> & turns,
                            const AnswerOptions & options) override {
        TextRequest request;
        request.is_chat = true;
        request.messages = LUMI_TRY(messages_of(turns));
        return answer(std::move(request), options);
    }

    Result<AnswerText> complete(const std::string & prompt,
                                const AnswerOptions & options) override {
        TextRequest request;
        request.prompt = prompt;
        return answer(std::move(request), options);
    }

    Result<LessonReport> teach(const std::vector<std::vector<ChatTurn>> & chats,
                               const LessonOptions & options) override {
        TrainRequest request;
        for (const std::vector<ChatTurn> & chat : chats) {
            request.chats.push_back(LUMI_TRY(messages_of(chat)));
        }
        request.options = lesson_options(config_.n_embd);
        request.options.epochs = options.epochs;
        request.options.rank = options.rank;
        request.options.alpha = 2.0F * static_cast<float>(options.rank);
        if (options.learning_rate > 0.0F) {
            request.options.learning_rate = options.learning_rate;
        }
        request.options.seed = options.seed;
        request.from_base = options.from_base;
        LUMI_TRY(request.options.check());
        TrainResult result = LUMI_TRY(engine_->train(std::move(request), {}, nullptr).get());
        LessonReport report;
        report.losses = std::move(result.summary.epoch_train_loss);
        report.seconds = result.summary.seconds;
        report.revision = std::move(result.revision);
        return report;
    }

    Status forget() override { return engine_->clear_memory().get(); }

    Status save_memory(const std::string & path) override {
        const AdapterData data = LUMI_TRY(engine_->memory());
        return save_adapter(data, config_, path);
    }

    Status load_memory(const std::string & path, float scale) override {
        const GgufFile file = LUMI_TRY(GgufFile::open(path));
        AdapterData data = LUMI_TRY(load_adapter(file, config_, fingerprint_));
        return engine_->load_memory(std::move(data), scale).get();
    }

  private:
    Result<AnswerText> answer(TextRequest request, const AnswerOptions & options) {
        GenerationOptions & generation = request.generation;
        generation.sampler = sampler_;
        generation.sampler.seed = options.seed;
        if (options.temperature >= 0.0F) {
            generation.sampler.temperature = options.temperature;
        }
        generation.max_tokens = options.max_tokens;
        generation.stops = options.stops;
        TextSink sink;
        if (options.on_text) {
            sink = [&options](const OutputDelta & delta, const GenerationStep &) {
                return delta.content.empty() || options.on_text(delta.content);
            };
        }
        TextResult result =
            LUMI_TRY(engine_->submit(std::move(request), std::move(sink), nullptr).get());
        AnswerText text;
        text.text = std::move(result.output.content);
        text.prompt_tokens = result.times.prompt_tokens;
        text.answer_tokens = result.times.generated_tokens;
        text.finish_reason = finish_reason_name(result.finish);
        return text;
    }

    Config config_;
    std::string fingerprint_;
    SamplerOptions sampler_;
    std::unique_ptr<Engine> engine_;
};

}  // namespace

Result<std::unique_ptr<Assistant>> Assistant::open(const std::string & path,
                                                   const AssistantOptions & options) {
    GgufFile file = LUMI_TRY(GgufFile::open(path));
    LUMI_TRY(load_backends());
    ModelOptions model;
    model.device = options.device;
    model.n_threads = options.n_threads;
    model.repack = options.repack;
    LoadedModel loaded = LUMI_TRY(load_model(std::move(file), model));
    Config config = loaded.model->config();
    std::string fingerprint = loaded.model->file().fingerprint();
    SamplerOptions sampler = default_sampler(loaded);
    SessionOptions session;
    session.n_ctx = std::min(options.n_ctx, config.n_ctx_train);
    std::unique_ptr<Engine> engine = LUMI_TRY(start_engine(std::move(loaded), session));
    return std::unique_ptr<Assistant>(std::make_unique<EngineAssistant>(
        std::move(config), std::move(fingerprint), std::move(sampler), std::move(engine)));
}

}  // namespace lumi
