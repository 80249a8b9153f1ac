// POST /v1/chat/completions and GET /v1/models, in OpenAI's shapes.
#include "chat/message_json.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/server.h"

#include <nlohmann/json.hpp>

#include <atomic>
#include <ctime>

namespace lumi {

using nlohmann::json;

namespace {

struct ChatRequest {
    TextRequest text;
    bool stream = false;
    bool include_usage = false;
    std::string id;
    std::string model;
};

std::string next_id() {
    static std::atomic<uint64_t> counter{0};
    return "chatcmpl-" + std::to_string(std::time(nullptr)) + "-" + std::to_string(++counter);
}

Status refuse_unsupported(const json & object) {
    const auto not_yet = [](const std::string & what) {
        return Error{ErrorKind::unsupported, what + ": not supported yet"};
    };
    if (object.contains("n") && !object["n"].is_null() && object["n"] != 1) {
        return not_yet("n other than 1");
    }
    if (object.contains("response_format") && object["response_format"].is_object() &&
        object["response_format"].value("type", "text") != "text") {
        return not_yet("response_format other than text");
    }
    return {};
}

Status read_thinking(const json & object, bool & think) {
    const Fields fields(object);
    LUMI_TRY(fields.boolean("think", think));
    if (fields.has("chat_template_kwargs") && object["chat_template_kwargs"].is_object()) {
        LUMI_TRY(Fields(object["chat_template_kwargs"]).boolean("enable_thinking", think));
    }
    if (fields.has("reasoning_effort")) {
        std::string effort;
        LUMI_TRY(fields.text("reasoning_effort", effort));
        think = effort != "none" && effort != "minimal";
    }
    return {};
}

Result<ChatRequest> read_request(const std::string & body, const ServedModel & model) {
    const json object = LUMI_TRY(request_object(body));
    const Fields fields(object);
    LUMI_TRY(refuse_unsupported(object));
    ChatRequest request;
    request.id = next_id();
    request.model = model.name;
    request.text.is_chat = true;
    request.text.generation = model.defaults;
    request.text.messages = LUMI_TRY(messages_from_json(object.value("messages", json())));
    if (fields.has("tools")) {
        request.text.tools = LUMI_TRY(tools_from_json(object["tools"]));
    }
    GenerationOptions & generation = request.text.generation;
    LUMI_TRY(fields.integer("max_tokens", 1, 1 << 30, generation.max_tokens));
    LUMI_TRY(fields.integer("max_completion_tokens", 1, 1 << 30, generation.max_tokens));
    bool log_probabilities = false;
    LUMI_TRY(fields.boolean("logprobs", log_probabilities));
    LUMI_TRY(fields.integer("top_logprobs", 0, 20, generation.n_log_probabilities));
    if (log_probabilities && generation.n_log_probabilities == 0) {
        generation.n_log_probabilities = 1;
    }
    LUMI_TRY(fields.boolean("stream", request.stream));
    LUMI_TRY(fields.boolean("use_memory", request.text.use_memory));
    if (fields.has("stream_options") && object["stream_options"].is_object()) {
        LUMI_TRY(Fields(object["stream_options"]).boolean("include_usage", request.include_usage));
    }
    LUMI_TRY(read_thinking(object, request.text.think));
    LUMI_TRY(read_sampling(object, model.n_vocab, generation));
    return request;
}

const char * finish_text(const TextResult & result) {
    if (!result.output.tool_calls.empty()) {
        return "tool_calls";
    }
    const bool limit =
        result.finish == FinishReason::length || result.finish == FinishReason::context_full;
    return limit ? "length" : "stop";
}

json usage(const GenerationTimes & times) {
    return {{"prompt_tokens", times.prompt_tokens},
            {"completion_tokens", times.generated_tokens},
            {"total_tokens", times.prompt_tokens + times.generated_tokens},
            {"prompt_tokens_details", {{"cached_tokens", times.reused_tokens}}}};
}

json tool_calls_json(const std::vector<ToolCall> & calls, size_t first_index) {
    json list = json::array();
    for (size_t i = 0; i < calls.size(); ++i) {
        const std::string id =
            calls[i].id.empty() ? "call_" + std::to_string(first_index + i) : calls[i].id;
        list.push_back(
            {{"index", first_index + i},
             {"id", id},
             {"type", "function"},
             {"function", {{"name", calls[i].name}, {"arguments", calls[i].arguments}}}});
    }
    return list;
}

json log_probability_entry(const GenerationStep & step, const ServedModel & model) {
    const auto one = [&](const TokenProbability & p) {
        const std::string text = model.piece(p.token);
        json bytes = json::array();
        for (const char c : text) {
            bytes.push_back(static_cast<unsigned char>(c));
        }
        return json{{"token", text}, {"logprob", p.log_probability}, {"bytes", bytes}};
    };
    json entry = one(step.log_probabilities.front());
    entry["top_logprobs"] = json::array();
    for (size_t i = 1; i < step.log_probabilities.size(); ++i) {
        entry["top_logprobs"].push_back(one(step.log_probabilities[i]));
    }
    return entry;
}

HttpReply plain(const std::shared_ptr<Answer> & answer, const ChatRequest & request,
                const ServedModel & model) {
    json entries = json::array();
    AnswerPiece piece;
    while (answer->next(piece)) {
        if (!piece.step.log_probabilities.empty()) {
            entries.push_back(log_probability_entry(piece.step, model));
        }
    }
    const Result<TextResult> result = answer->result();
    if (!result.ok()) {
        return error_reply(result.error());
    }
    json message = {{"role", "assistant"}, {"content", result->output.content}};
    if (!result->output.reasoning.empty()) {
        message["reasoning_content"] = result->output.reasoning;
    }
    if (!result->output.tool_calls.empty()) {
        message["tool_calls"] = tool_calls_json(result->output.tool_calls, 0);
    }
    json choice = {{"index", 0}, {"message", message}, {"finish_reason", finish_text(*result)}};
    choice["logprobs"] = entries.empty() ? json() : json{{"content", entries}};
    HttpReply reply;
    reply.body = json_text({{"id", request.id},
                            {"object", "chat.completion"},
                            {"created", std::time(nullptr)},
                            {"model", request.model},
                            {"choices", json::array({choice})},
                            {"usage", usage(result->times)},
                            {"lumi", {{"revision", result->revision}}}});
    return reply;
}

// Writes the events of one streamed answer.
class ChatStream {
  public:
    ChatStream(const ChatRequest & request, const ServedModel & model, const HttpWrite & write)
        : request_(request), model_(model), write_(write), created_(std::time(nullptr)) {}

    bool send(const AnswerPiece & piece) {
        json delta = json::object();
        if (first_) {
            delta["role"] = "assistant";
        }
        if (!piece.delta.content.empty()) {
            delta["content"] = piece.delta.content;
        }
        if (!piece.delta.reasoning.empty()) {
            delta["reasoning_content"] = piece.delta.reasoning;
        }
        if (!piece.delta.tool_calls.empty()) {
            delta["tool_calls"] = tool_calls_json(piece.delta.tool_calls, n_calls_);
            n_calls_ += piece.delta.tool_calls.size();
        }
        json entries;
        if (!piece.step.log_probabilities.empty()) {
            entries = {{"content", json::array({log_probability_entry(piece.step, model_)})}};
        }
        if (delta.empty() && entries.is_null()) {
            return true;
        }
        first_ = false;
        return event(json::array({{{"index", 0},
                                   {"delta", delta},
                                   {"finish_reason", nullptr},
                                   {"logprobs", entries}}}),
                     json());
    }

    void end(const TextResult & result) {
        event(json::array({{{"index", 0},
                            {"delta", json::object()},
                            {"finish_reason", finish_text(result)},
                            {"logprobs", nullptr}}}),
              json());
        if (request_.include_usage) {
            event(json::array(), usage(result.times));
        }
        write_("data: [DONE]\n\n");
    }

    void fail(const Error & error) { write_("data: " + error_reply(error).body + "\n\n"); }

  private:
    bool event(json choices, const json & usage_fields) {
        json body = {{"id", request_.id},
                     {"object", "chat.completion.chunk"},
                     {"created", created_},
                     {"model", request_.model},
                     {"choices", std::move(choices)}};
        if (!usage_fields.is_null()) {
            body["usage"] = usage_fields;
        }
        return write_("data: " + json_text(body) + "\n\n");
    }

    const ChatRequest & request_;
    const ServedModel & model_;
    const HttpWrite & write_;
    std::time_t created_;
    bool first_ = true;
    size_t n_calls_ = 0;
};

HttpReply streamed(std::shared_ptr<Answer> answer, ChatRequest request, const ServedModel & model) {
    Result<AnswerPiece> first = answer->first();
    if (!first.ok()) {
        return error_reply(first.error());
    }
    HttpReply reply;
    reply.content_type = "text/event-stream";
    reply.stream = [answer = std::move(answer), request = std::move(request),
                    first = std::move(*first), &model](const HttpWrite & write) {
        ChatStream stream(request, model, write);
        AnswerPiece piece = first;
        do {
            if (!stream.send(piece)) {
                answer->cancel();
                return;
            }
        } while (answer->next(piece));
        const Result<TextResult> result = answer->result();
        if (result.ok()) {
            stream.end(*result);
        } else {
            stream.fail(result.error());
        }
    };
    return reply;
}

}  // namespace

void add_chat_route(HttpServer & http, Engine & engine, const ServedModel & model) {
    http.add("POST", "/v1/chat/completions", [&engine, &model](const HttpRequest & request) {
        Result<ChatRequest> read = read_request(request.body, model);
        if (!read.ok()) {
            return error_reply(read.error());
        }
        const bool stream = read->stream;
        auto answer = std::make_shared<Answer>(engine, std::move(read->text), request.peer_closed);
        return stream ? streamed(std::move(answer), std::move(*read), model)
                      : plain(answer, *read, model);
    });
    http.add("GET", "/v1/models", [&model](const HttpRequest &) {
        HttpReply reply;
        reply.body = json_text({{"object", "list"},
                                {"data", json::array({{{"id", model.name},
                                                       {"object", "model"},
                                                       {"created", 0},
                                                       {"owned_by", "lumi"}}})}});
        return reply;
    });
}

}  // namespace lumi
