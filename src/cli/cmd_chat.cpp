// lumi chat: a conversation on the terminal, which the model can learn from and forget again.
#include "cli/command.h"
#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>

namespace lumi {

namespace {

constexpr const char * kCommands =
    "/learn ANSWER  learn to answer your last message with ANSWER\n"
    "/learn         learn the answers of this conversation as they are\n"
    "/forget        drop everything learnt\n"
    "/new           start a new conversation\n"
    "/help          these lines\n"
    "/exit          leave\n";

struct ChatFlags {
    ModelFlags model;
    ContextFlags context;
    SamplingFlags sampling;
    AdapterFlag adapter;
    std::string system;
    bool think = false;
};

class Chat {
  public:
    Chat(Engine & engine, const ChatFlags & flags, GenerationOptions generation)
        : engine_(engine), flags_(flags), generation_(std::move(generation)) {
        start_over();
    }

    // One line from the user; false to leave.
    bool handle(const std::string & line) {
        if (line == "/exit" || line == "/quit" || line == "/bye") {
            return false;
        }
        if (line == "/new") {
            start_over();
        } else if (line == "/help" || line == "/?") {
            std::fprintf(stderr, "%s", kCommands);
        } else if (line == "/learn") {
            report(learn(messages_));
        } else if (line.rfind("/learn ", 0) == 0 && line.find_first_not_of(' ', 7) != line.npos) {
            report(correct(line.substr(7)));
        } else if (line == "/forget") {
            const Status cleared = engine_.clear_memory().get();
            report(cleared);
            if (cleared.ok()) {
                std::fprintf(stderr, "Forgotten. This conversation still holds what was said; /new "
                                     "starts another.\n");
            }
        } else if (line.rfind('/', 0) == 0) {
            std::fprintf(stderr, "unknown command %s\n%s", line.c_str(), kCommands);
        } else if (!line.empty()) {
            report(answer(line));
        }
        return true;
    }

  private:
    static void report(const Status & status) {
        if (!status.ok()) {
            std::fprintf(stderr, "%s\n", status.error().message.c_str());
        }
    }

    void start_over() {
        messages_.clear();
        if (!flags_.system.empty()) {
            Message system;
            system.role = Role::system;
            system.content = flags_.system;
            messages_.push_back(system);
        }
    }

    Status answer(const std::string & line) {
        Message user;
        user.content = line;
        messages_.push_back(user);
        TextRequest request;
        request.messages = messages_;
        request.is_chat = true;
        request.think = flags_.think;
        request.generation = generation_;
        bool said_something = false;
        const TextSink print = [&](const OutputDelta & delta, const GenerationStep &) {
            said_something = said_something || !delta.content.empty();
            std::fprintf(stderr, "%s", delta.reasoning.c_str());
            std::fwrite(delta.content.data(), 1, delta.content.size(), stdout);
            std::fflush(stdout);
            return true;
        };
        const Result<TextResult> result =
            engine_.submit(std::move(request), print, cancel_on_signal()).get();
        if (result.ok() || said_something) {
            std::printf("\n");
        }
        if (!result.ok()) {
            messages_.pop_back();
            return result.error();
        }
        Message reply;
        reply.role = Role::assistant;
        reply.content = result->output.content;
        messages_.push_back(reply);
        return {};
    }

    // Puts the right answer in place of the last one and learns that exchange alone: the answers
    // before it may be as wrong.
    Status correct(const std::string & answer) {
        if (messages_.size() < 2 || messages_.back().role != Role::assistant) {
            return Error{ErrorKind::invalid_argument,
                         "/learn ANSWER: there is no message of yours to answer yet"};
        }
        messages_.back().content = answer;
        return learn({messages_.end() - 2, messages_.end()});
    }

    Status learn(std::vector<Message> conversation) {
        TrainRequest request;
        request.chats = {std::move(conversation)};
        request.options = lesson_options(engine_.status().n_embd);
        TrainReporter reporter(progress_style(false));
        const auto result =
            engine_
                .train(
                    std::move(request), [&](const TrainProgress & p) { reporter.report(p); },
                    cancel_on_signal())
                .get();
        reporter.finish();
        if (!result.ok()) {
            return result.error();
        }
        std::fprintf(stderr, "Learnt in %s: loss %.3f -> %.3f.\n",
                     duration_text(result->summary.seconds).c_str(),
                     result->summary.epoch_train_loss.front(),
                     result->summary.epoch_train_loss.back());
        return {};
    }

    Engine & engine_;
    const ChatFlags & flags_;
    GenerationOptions generation_;
    std::vector<Message> messages_;
};

Status run(ChatFlags & flags) {
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    if (!loaded.chat) {
        return Error{ErrorKind::unsupported, "this model cannot chat: " + loaded.chat_error +
                                                 "; use `lumi run --raw` to complete text"};
    }
    const GenerationOptions generation = flags.sampling.resolve(loaded);
    const SessionOptions options = LUMI_TRY(flags.context.resolve(loaded.model->config()));
    const std::unique_ptr<Engine> engine =
        LUMI_TRY(start_engine(std::move(loaded), options, flags.adapter));
    const bool terminal = isatty(STDIN_FILENO) != 0;
    if (terminal) {
        std::fprintf(stderr, "%s, %d tokens of context. /help lists commands.\n",
                     engine->status().model_name.c_str(), options.n_ctx);
    }
    Chat chat(*engine, flags, generation);
    std::string line;
    while (true) {
        if (terminal) {
            std::fprintf(stderr, "> ");
        }
        if (!std::getline(std::cin, line) || !chat.handle(line)) {
            return {};
        }
    }
}

}  // namespace

void declare_chat(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<ChatFlags>();
    CLI::App * command =
        add_command(app, "chat", "talk, teach with /learn, forget with /forget",
                    "  lumi chat\n  lumi chat -m model.gguf --system \"Be brief.\" --temp 0");
    flags->model.declare(*command);
    flags->context.declare(*command);
    flags->sampling.declare(*command);
    flags->adapter.declare(*command);
    command->add_option("--system", flags->system, "system message");
    command->add_flag("--think", flags->think, "let the model think first (shown on stderr)");
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
