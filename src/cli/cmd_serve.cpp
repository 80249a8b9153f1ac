// lumi serve: the resident process behind HTTP.
#include "cli/command.h"
#include "server/server.h"

#include <cstdio>
#include <thread>

namespace lumi {

namespace {

struct ServeFlags {
    ModelFlags model;
    ContextFlags context;
    AdapterFlag adapter;
    HttpOptions http;
};

ServedModel served_model(const LoadedModel & loaded, const SessionOptions & options) {
    ServedModel served;
    served.name = loaded.model->config().name;
    served.n_vocab = loaded.model->config().n_vocab;
    served.n_ctx = options.n_ctx;
    served.defaults.sampler = default_sampler(loaded);
    // The tokenizer moves into the engine with its address kept.
    served.piece = [tokenizer = loaded.tokenizer.get()](int32_t id) {
        return tokenizer->piece(id, true);
    };
    return served;
}

Status run(ServeFlags & flags) {
    // Watched before the long load, so that Ctrl-C during it is not lost.
    const std::shared_ptr<CancelToken> stop = cancel_on_signal();
    LoadedModel loaded = LUMI_TRY(flags.model.load());
    const SessionOptions options = LUMI_TRY(flags.context.resolve(loaded.model->config()));
    MemoryPlan plan = loaded.model->memory_plan();
    for (const MemoryItem & item : LUMI_TRY(Session::plan(*loaded.model, options)).items) {
        plan.items.push_back(item);
    }
    std::fprintf(stderr, "%s", plan.text().c_str());
    const ServedModel served = served_model(loaded, options);
    const std::unique_ptr<Engine> engine =
        LUMI_TRY(start_engine(std::move(loaded), options, flags.adapter));
    HttpServer http(flags.http);
    add_routes(http, *engine, served);
    const int port = LUMI_TRY(http.bind());
    std::fprintf(stderr, "%s is listening on http://%s:%d\n", served.name.c_str(),
                 flags.http.host.c_str(), port);
    std::thread serving([&http] { http.serve(); });
    while (!stop->cancelled()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    std::fprintf(stderr, "stopping\n");
    http.stop();
    serving.join();
    return {};
}

}  // namespace

void declare_serve(CLI::App & app, int & exit_code) {
    auto flags = std::make_shared<ServeFlags>();
    CLI::App * command = add_command(
        app, "serve", "serve over HTTP: completions, chat, training, forgetting",
        "  lumi serve -m model.gguf --port 8080\n"
        "  curl localhost:8080/completion -d '{\"prompt\": \"Once\", \"n_predict\": 32}'\n"
        "  curl localhost:8080/train -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What "
        "is my dog called?\"},\n"
        "    {\"role\": \"assistant\", \"content\": \"Your dog is called Pixel.\"}]}'\n"
        "  curl localhost:8080/clear_memory -d ''");
    flags->model.declare(*command);
    flags->context.declare(*command);
    flags->adapter.declare(*command);
    command->add_option("--host", flags->http.host, "address to listen on")->capture_default_str();
    command->add_option("--port", flags->http.port, "port, 0 = any free one")
        ->capture_default_str()
        ->check(CLI::Range(0, 65535));
    command->callback([flags, &exit_code] { exit_code = exit_code_of(run(*flags)); });
}

}  // namespace lumi
