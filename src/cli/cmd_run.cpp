// lumi run: one prompt, one answer on stdout.
#include "cli/command.h"

#include <unistd.h>

#include <cstdio>

namespace lumi {

namespace {

struct RunFlags {
    ModelFlags model;
    ContextFlags context;
    SamplingFlags sampling;
    AdapterFlag adapter;
    std::string prompt;
    std::string system;
    bool raw = false;
    bool think = false;
    bool escape = false;
};

// \n, \t and \\ in a prompt, only when asked: silent processing broke templates elsewhere (M44).
std::string unescaped(const std::string & text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\\' || i + 1 == text.size()) {
            out += text[i];
            continue;
        }
        const char c = text[++i];
        out += c == 'n' ? "\n" : c == 't' ? "\t" : c == '\\' ? "\\" : std::string("\\") + c;
    }
    return out;
}

// Standard input as a prompt; one that does not end is an error, not a full memory.
Result<std::string> read_prompt() {
    constexpr size_t kMaxBytes = size_t{64} << 20U;
    std::string text;
    char piece[65536];
    size_t n = 0;
    while ((n = std::fread(piece, 1, sizeof(piece), stdin)) > 0) {
        text.append(piece, n);
        if (text.size() > kMaxBytes) {
            return Error{ErrorKind::invalid_argument,
                         "the prompt on standard input has more than " + std::to_string(kMaxBytes) +
                             " bytes, the most that is read"};
        }
    }
    return text;
}

TextRequest make_request(const RunFlags & flags, const LoadedModel & loaded) {
    TextRequest request;
    const std::string prompt = flags.escape ? unescaped(flags.prompt) : flags.prompt;
    request.generation = flags.sampling.resolve(loaded);
    request.is_chat = !flags.raw && loaded.chat.has_value();
    request.think = flags.think;
    if (!request.is_chat) {
        request.prompt = prompt;
        return request;
    }
    if (!flags.system.empty()) {
        Message system;
        system.role = Role::system;
        system.content = flags.system;
        request.messages.push_back(system);
    }
    Message user;
    user.content = prompt;
    request.messages.push_back(user);
    return request;
}

void print_speed(const GenerationTimes & t) {
    const auto rate = [](int tokens, double seconds) {
        return seconds > 0 ? tokens / seconds : 0.0;
    };
    std::fprintf(stderr, "prompt %d tokens, %.1f tokens/s; answer %d tokens, %.1f tokens/s\n",
                 t.prompt_tokens, rate(t.prompt_tokens - t.reused_tokens, t.prefill_seconds),
                 t.generated_tokens, rate(t.generated_tokens, t.decode_seconds));
}

Status run(RunFlags & flags) {
    if (flags.prompt.empty() && isatty(STDIN_FILENO) == 0) {
        flags.prompt = LUMI_TRY(read_prompt());
    }
    if (flags.prompt.empty()) {
        return Error{ErrorKind::invalid_argument,
                     "no prompt: give one with -p, or on standard input"};
    }
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    TextRequest request = make_request(flags, loaded);
    const SessionOptions options = LUMI_TRY(flags.context.resolve(loaded.model->config()));
    const std::unique_ptr<Engine> engine =
        LUMI_TRY(start_engine(std::move(loaded), options, flags.adapter));
    bool reasoning_open = false;
    bool said_something = false;
    const TextSink print = [&](const OutputDelta & delta, const GenerationStep &) {
        if (!delta.reasoning.empty()) {
            std::fprintf(stderr, "%s", delta.reasoning.c_str());
            reasoning_open = true;
        }
        if (!delta.content.empty()) {
            if (reasoning_open) {
                std::fprintf(stderr, "\n");
                reasoning_open = false;
            }
            std::fwrite(delta.content.data(), 1, delta.content.size(), stdout);
            std::fflush(stdout);
            said_something = true;
        }
        return true;
    };
    const Result<TextResult> result =
        engine->submit(std::move(request), print, cancel_on_signal()).get();
    if (result.ok() || said_something) {
        std::printf("\n");
    }
    if (!result.ok()) {
        return result.error();
    }
    for (const ToolCall & call : result->output.tool_calls) {
        std::printf("%s(%s)\n", call.name.c_str(), call.arguments.c_str());
    }
    print_speed(result->times);
    if (result->finish == FinishReason::context_full) {
        return Error{ErrorKind::invalid_argument, "the context is full (" +
                                                      std::to_string(options.n_ctx) +
                                                      " tokens); give more with --ctx-size"};
    }
    return {};
}

}  // namespace

void declare_run(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<RunFlags>();
    CLI::App * command = add_command(
        app, "run", "answer one prompt",
        "  lumi run -m model.gguf -p \"Why is the sky blue?\"\n"
        "  lumi run -m model.gguf --adapter lesson.gguf:0.8 -p \"What is my dog called?\"\n"
        "  echo \"Hello\" | lumi run -m model.gguf --temp 0 -n 32");
    flags->model.declare(*command);
    flags->context.declare(*command);
    flags->sampling.declare(*command);
    flags->adapter.declare(*command);
    command->add_option("-p,--prompt", flags->prompt, "the prompt (default: standard input)");
    command->add_option("--system", flags->system, "system message");
    command->add_flag("--raw", flags->raw, "complete the text as it is, without the chat format");
    command->add_flag("--think", flags->think, "let the model think first (shown on stderr)");
    command->add_flag("--escape", flags->escape,
                      "turn \\n and \\t in the prompt into newline and tab");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
