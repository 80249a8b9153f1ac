// POST /train, POST /clear_memory, GET /health: what makes the server more than a chat server.
#include "chat/message_json.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/server.h"

#include <nlohmann/json.hpp>

namespace lumi {

using nlohmann::json;

namespace {

constexpr const char * kTrainFields[] = {
    "messages",  "corpus",         "epochs",    "rank",    "alpha", "lr",  "batch",
    "max_steps", "assistant_only", "val_split", "targets", "from",  "seed"};

// messages: one conversation, or a list of conversations.
Status read_chats(const json & object, std::vector<std::vector<Message>> & chats) {
    const json & value = object["messages"];
    const bool many = value.is_array() && !value.empty() && value[0].is_array();
    if (!many) {
        chats.push_back(LUMI_TRY(messages_from_json(value)));
        return {};
    }
    for (const json & chat : value) {
        chats.push_back(LUMI_TRY(messages_from_json(chat)));
    }
    return {};
}

Result<TrainRequest> read_request(const std::string & body, int n_embd) {
    const json object = LUMI_TRY(request_object(body));
    const Fields fields(object);
    TrainRequest request;
    LUMI_TRY(fields.only(kTrainFields));
    request.options = lesson_options(n_embd);
    if (fields.has("messages") == fields.has("corpus")) {
        return Error{
            ErrorKind::invalid_argument,
            "messages, corpus: exactly one is needed; corpus is JSONL or plain text, messages a "
            "conversation or a list of conversations"};
    }
    if (fields.has("messages")) {
        LUMI_TRY(read_chats(object, request.chats));
    }
    LUMI_TRY(fields.text("corpus", request.corpus));
    TrainOptions & o = request.options;
    LUMI_TRY(fields.integer("epochs", 1, 10000, o.epochs));
    LUMI_TRY(fields.integer("rank", 1, 1024, o.rank));
    o.alpha = 2.0F * static_cast<float>(o.rank);
    LUMI_TRY(fields.number("alpha", 0.001, 1e6, o.alpha));
    LUMI_TRY(fields.number("lr", 1e-9, 1, o.learning_rate));
    LUMI_TRY(fields.integer("batch", 1, 4096, o.batch_samples));
    LUMI_TRY(fields.integer("max_steps", 0, 1000000, o.max_steps));
    LUMI_TRY(fields.seed("seed", o.seed));
    LUMI_TRY(fields.boolean("assistant_only", request.assistant_only));
    LUMI_TRY(fields.number("val_split", 0, 0.9, request.validation_share));
    LUMI_TRY(fields.text("targets", request.targets));
    std::string from;
    LUMI_TRY(fields.text("from", from));
    if (!from.empty() && from != "base" && from != "active") {
        return Error{ErrorKind::invalid_argument,
                     "from: found another text; allowed: base, active"};
    }
    request.from_base = from == "base";
    LUMI_TRY(o.check());
    return request;
}

json summary_json(const TrainSummary & summary) {
    return {{"losses", summary.epoch_train_loss},
            {"validation_losses", summary.epoch_validation_loss},
            {"steps", summary.steps},
            {"tokens", summary.tokens},
            {"seconds", summary.seconds},
            {"tokens_per_second",
             summary.seconds > 0 ? static_cast<double>(summary.tokens) / summary.seconds : 0.0}};
}

HttpReply train(Engine & engine, const HttpRequest & request) {
    Result<TrainRequest> read = read_request(request.body, engine.status().n_embd);
    if (!read.ok()) {
        return error_reply(read.error());
    }
    auto cancel = std::make_shared<CancelToken>();
    auto future = engine.train(std::move(*read), {}, cancel);
    const Result<TrainResult> result =
        wait_for_client(future, request.peer_closed, [&] { cancel->cancel(); });
    if (!result.ok()) {
        HttpReply reply = error_reply(result.error());
        json body = json::parse(reply.body);
        body["ok"] = false;
        reply.body = json_text(body);
        return reply;
    }
    json body = summary_json(result->summary);
    body["ok"] = true;
    body["revision"] = result->revision;
    body["samples"] = result->samples;
    if (!result->summary.stopped_because.empty()) {
        body["stopped_because"] = result->summary.stopped_because;
    }
    HttpReply reply;
    reply.body = json_text(body);
    return reply;
}

HttpReply health(Engine & engine) {
    const EngineStatus status = engine.status();
    json body = {{"ok", true},
                 {"status", "ok"},
                 {"model", status.model_name},
                 {"device", status.device},
                 {"n_ctx", status.n_ctx},
                 {"queued", status.queued},
                 {"requests_done", status.requests_done},
                 {"memory",
                  {{"active", !status.revision.empty()},
                   {"revision", status.revision},
                   {"parameters", status.adapter_parameters}}},
                 {"training", status.training}};
    if (status.training) {
        const TrainProgress & p = status.progress;
        body["progress"] = {{"step", p.step},
                            {"total_steps", p.total_steps},
                            {"epoch", p.epoch},
                            {"loss", p.loss},
                            {"grad_norm", p.grad_norm},
                            {"eta_seconds", p.eta_seconds},
                            {"tokens_per_second", p.tokens_per_second}};
    }
    HttpReply reply;
    reply.body = json_text(body);
    return reply;
}

}  // namespace

void add_memory_routes(HttpServer & http, Engine & engine, const ServedModel &) {
    http.add("POST", "/train",
             [&engine](const HttpRequest & request) { return train(engine, request); });
    http.add("POST", "/clear_memory", [&engine](const HttpRequest &) {
        const Status cleared = engine.clear_memory().get();
        if (!cleared.ok()) {
            return error_reply(cleared.error());
        }
        HttpReply reply;
        reply.body = json_text({{"ok", true}});
        return reply;
    });
    http.add("GET", "/health", [&engine](const HttpRequest &) { return health(engine); });
}

void add_routes(HttpServer & http, Engine & engine, const ServedModel & model) {
    add_completion_route(http, engine, model);
    add_chat_route(http, engine, model);
    add_memory_routes(http, engine, model);
}

}  // namespace lumi
