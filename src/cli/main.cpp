// The command line: declares the subcommands, reports wrong usage with the nearest match, and sets
// up logging. The answer goes to stdout, everything else to stderr.
#include "base/log.h"
#include "base/nearest.h"
#include "cli/command.h"

#include <csignal>
#include <cstdio>

namespace lumi {

namespace {

constexpr const char * kExamples = R"(
Examples:
  lumi chat                                  talk to the small model inside lumi
  lumi run -m model.gguf -p "Why is the sky blue?"
  lumi serve -m model.gguf                   answers, learns (/train), forgets (/clear_memory)
  lumi train model.gguf chats.jsonl -o a.gguf
  lumi run -m model.gguf --adapter a.gguf -p "Hello"

lumi COMMAND --help tells more.)";

std::string version_text() {
    const Status loaded = load_backends();
    return std::string("lumi ") + LUMI_VERSION + "\nggml " + ggml_version_text() +
           "\nCPU backend " +
           (loaded.ok() ? cpu_variant_text() : "not loaded: " + loaded.error().message);
}

void install_log_sink(LogLevel level) {
    set_log_sink([level](LogLevel at, std::string_view message) {
        if (at < level) {
            return;
        }
        const char * name = at == LogLevel::error     ? "error: "
                            : at == LogLevel::warning ? "warning: "
                                                      : "";
        std::fprintf(stderr, "lumi: %s%.*s\n", name, static_cast<int>(message.size()),
                     message.data());
    });
}

// The names a user may have meant: of the subcommand in use, or of all subcommands.
std::vector<std::string> known_names(const CLI::App & app) {
    const std::vector<CLI::App *> used = app.get_subcommands();
    std::vector<std::string> names;
    if (used.empty()) {
        for (const CLI::App * command :
             app.get_subcommands(std::function<bool(const CLI::App *)>())) {
            names.push_back(command->get_name());
        }
    }
    for (const CLI::Option * option : (used.empty() ? &app : used.front())->get_options()) {
        for (const std::string & name : option->get_lnames()) {
            names.push_back("--" + name);
        }
        for (const std::string & name : option->get_snames()) {
            names.push_back("-" + name);
        }
    }
    return names;
}

int report_usage(const CLI::App & app, const CLI::ParseError & error, int argc, char ** argv) {
    if (error.get_exit_code() == 0) {
        return app.exit(error);  // --help, --version
    }
    std::string text = error.what();
    if (dynamic_cast<const CLI::ExtrasError *>(&error) != nullptr) {
        const std::vector<std::string> extras = app.remaining(true);
        const std::string extra = extras.empty() ? (argc > 1 ? argv[1] : "") : extras.front();
        text = "unknown " + std::string(extra.rfind('-', 0) == 0 ? "option " : "argument ") + extra;
        const std::string best = nearest(extra.substr(0, extra.find('=')), known_names(app));
        text += best.empty() ? "" : "; did you mean " + best + "?";
    }
    std::fprintf(stderr, "lumi: error: %s\n", text.c_str());
    const std::vector<CLI::App *> used = app.get_subcommands();
    std::fprintf(stderr, "Run lumi %s--help for what is allowed.\n",
                 used.empty() ? "" : (used.front()->get_name() + " ").c_str());
    return kExitUsage;
}

int run(int argc, char ** argv) {
    CLI::App app{
        "lumi: a language model that answers, learns while it runs, and forgets on request",
        "lumi"};
    app.footer(kExamples);
    app.require_subcommand(0, 1);
    int exit_code = 0;
    bool verbose = false;
    bool version = false;
    app.add_flag("--version", version, "lumi's version, ggml's, and the CPU backend in use");
    app.add_flag("-v,--verbose", verbose, "log more");
    app.parse_complete_callback(
        [&verbose] { install_log_sink(verbose ? LogLevel::debug : LogLevel::warning); });
    declare_run(app, exit_code);
    declare_chat(app, exit_code);
    declare_serve(app, exit_code);
    declare_train(app, exit_code);
    declare_eval(app, exit_code);
    declare_inspect(app, exit_code);
    declare_tokenize(app, exit_code);
    declare_devices(app, exit_code);
    declare_bench(app, exit_code);
    declare_synth(app, exit_code);
    install_log_sink(LogLevel::warning);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError & error) {
        return report_usage(app, error, argc, argv);
    }
    if (version) {
        std::printf("%s\n", version_text().c_str());
        return 0;
    }
    if (app.get_subcommands().empty()) {
        std::fprintf(stderr, "%s", app.help().c_str());
        return kExitUsage;
    }
    return exit_code;
}

// Whether all of standard output arrived; a full disk behind it must not look like success.
bool output_written() {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) {
        return true;
    }
    std::fprintf(stderr, "lumi: error: standard output could not be written\n");
    return false;
}

}  // namespace

}  // namespace lumi

int main(int argc, char ** argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is a failed write, not the end
    try {
        const int exit_code = lumi::run(argc, argv);
        return lumi::output_written() ? exit_code : lumi::kExitFailure;
    } catch (const std::exception & e) {
        std::fprintf(stderr, "lumi: internal error: %s\n", e.what());
        return lumi::kExitFailure;
    }
}
