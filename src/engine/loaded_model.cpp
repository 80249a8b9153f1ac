// Brings a file's model, tokenizer and chat format together.
#include "engine/engine.h"

#include "base/log.h"

namespace lumi {

Result<LoadedModel> load_model(GgufFile file, const ModelOptions & options) {
    LoadedModel loaded;
    loaded.tokenizer = LUMI_TRY(Tokenizer::load(file));
    loaded.model = LUMI_TRY(Model::load(std::move(file), options));
    const int n_vocab = loaded.model->config().n_vocab;
    if (loaded.tokenizer->n_tokens() != n_vocab) {
        return Error{ErrorKind::invalid_file,
                     "tokenizer.ggml.tokens has " + std::to_string(loaded.tokenizer->n_tokens()) +
                         " entries but token_embd.weight has " + std::to_string(n_vocab) + " rows"};
    }
    Result<ChatFormat> chat = ChatFormat::detect(loaded.model->file(), *loaded.tokenizer);
    if (chat.ok()) {
        loaded.chat.emplace(std::move(*chat));
    } else {
        loaded.chat_error = chat.error().message;
        log(LogLevel::warning, "no chat format: " + loaded.chat_error);
    }
    return loaded;
}

TrainOptions lesson_options(int n_embd) {
    constexpr float kRateTimesWidth = 0.384F;
    TrainOptions options;
    options.rank = 8;
    options.alpha = 16.0F;
    options.epochs = 20;
    options.learning_rate = kRateTimesWidth / static_cast<float>(n_embd);
    options.warmup_steps = 2;
    options.batch_samples = 8;
    return options;
}

SamplerOptions default_sampler(const LoadedModel & loaded) {
    const SamplingDefaults & d = loaded.model->config().sampling;
    SamplerOptions options;
    options.temperature = d.temperature;
    options.top_k = d.top_k;
    options.top_p = d.top_p;
    options.min_p = d.min_p;
    options.suppressed = loaded.tokenizer->suppressed();
    return options;
}

Result<RenderedChat> render_prompt(const LoadedModel & loaded, const TextRequest & request) {
    if (request.is_chat) {
        if (!loaded.chat) {
            return Error{ErrorKind::unsupported,
                         "this model has no chat format: " + loaded.chat_error};
        }
        RenderOptions options;
        options.think = request.think;
        options.tools = request.tools;
        return loaded.chat->render(request.messages, options);
    }
    RenderedChat prompt;
    std::vector<int32_t> & tokens = prompt.tokens;
    const TokenId bos = loaded.tokenizer->bos();
    if (bos >= 0 && loaded.tokenizer->add_bos()) {
        tokens.push_back(bos);
    }
    loaded.tokenizer->encode(request.prompt, Tokenizer::Specials::parse, tokens);
    // A prompt that already starts with the literal BOS text gets exactly one.
    if (tokens.size() > 1 && tokens[0] == bos && tokens[1] == bos) {
        tokens.erase(tokens.begin());
    }
    if (tokens.empty()) {
        return Error{ErrorKind::invalid_argument,
                     "prompt: found an empty text; allowed: one or more tokens"};
    }
    return prompt;
}

}  // namespace lumi
