// POST /completion with llama.cpp's field names, plain and streamed.
#include "chat/message_json.h"
#include "server/answer.h"
#include "server/fields.h"
#include "server/server.h"

#include <nlohmann/json.hpp>

namespace lumi {

using nlohmann::json;

namespace {

struct CompletionRequest {
    TextRequest text;
    bool stream = false;
};

Result<CompletionRequest> read_request(const std::string & body, const ServedModel & model) {
    const json object = LUMI_TRY(request_object(body));
    const Fields fields(object);
    CompletionRequest request;
    request.text.generation = model.defaults;
    if (!fields.has("prompt")) {
        return Error{ErrorKind::invalid_argument, "prompt: missing; allowed: a string"};
    }
    LUMI_TRY(fields.text("prompt", request.text.prompt));
    LUMI_TRY(fields.integer("n_predict", -1, 1 << 30, request.text.generation.max_tokens));
    LUMI_TRY(fields.integer("n_probs", 0, 20, request.text.generation.n_log_probabilities));
    LUMI_TRY(fields.boolean("stream", request.stream));
    LUMI_TRY(fields.boolean("use_memory", request.text.use_memory));
    LUMI_TRY(read_sampling(object, model.n_vocab, request.text.generation));
    return request;
}

json probabilities(const GenerationStep & step, const ServedModel & model) {
    json list = json::array();
    for (const TokenProbability & p : step.log_probabilities) {
        list.push_back(
            {{"id", p.token}, {"token", model.piece(p.token)}, {"logprob", p.log_probability}});
    }
    return list;
}

json final_fields(const TextResult & result, const ServedModel & model) {
    const GenerationTimes & t = result.times;
    const auto rate = [](int tokens, double seconds) {
        return seconds > 0 ? tokens / seconds : 0.0;
    };
    const bool limit =
        result.finish == FinishReason::length || result.finish == FinishReason::context_full;
    return {{"stop", true},
            {"stop_type", result.finish == FinishReason::end_token   ? "eos"
                          : result.finish == FinishReason::stop_text ? "word"
                          : limit                                    ? "limit"
                                  : finish_reason_name(result.finish)},
            {"model", model.name},
            {"revision", result.revision},
            {"tokens_predicted", t.generated_tokens},
            {"tokens_evaluated", t.prompt_tokens},
            {"tokens_cached", t.reused_tokens},
            {"truncated", false},
            {"timings",
             {{"prompt_n", t.prompt_tokens - t.reused_tokens},
              {"prompt_ms", t.prefill_seconds * 1000},
              {"prompt_per_second", rate(t.prompt_tokens - t.reused_tokens, t.prefill_seconds)},
              {"predicted_n", t.generated_tokens},
              {"predicted_ms", t.decode_seconds * 1000},
              {"predicted_per_second", rate(t.generated_tokens, t.decode_seconds)}}}};
}

HttpReply plain(const std::shared_ptr<Answer> & answer, const ServedModel & model) {
    json log_probabilities = json::array();
    AnswerPiece piece;
    while (answer->next(piece)) {
        if (!piece.step.log_probabilities.empty()) {
            log_probabilities.push_back(probabilities(piece.step, model));
        }
    }
    const Result<TextResult> result = answer->result();
    if (!result.ok()) {
        return error_reply(result.error());
    }
    json body = final_fields(*result, model);
    body["content"] = result->output.content;
    if (!log_probabilities.empty()) {
        body["completion_probabilities"] = log_probabilities;
    }
    HttpReply reply;
    reply.body = json_text(body);
    return reply;
}

HttpReply streamed(std::shared_ptr<Answer> answer, const ServedModel & model) {
    Result<AnswerPiece> first = answer->first();
    if (!first.ok()) {
        return error_reply(first.error());
    }
    HttpReply reply;
    reply.content_type = "text/event-stream";
    reply.stream = [answer = std::move(answer), first = std::move(*first),
                    &model](const HttpWrite & write) {
        AnswerPiece piece = first;
        do {
            json event = {{"content", piece.delta.content}, {"stop", false}};
            if (!piece.step.log_probabilities.empty()) {
                event["completion_probabilities"] = json::array({probabilities(piece.step, model)});
            }
            if (!piece.delta.content.empty() && !write("data: " + json_text(event) + "\n\n")) {
                answer->cancel();
                return;
            }
        } while (answer->next(piece));
        const Result<TextResult> result = answer->result();
        if (!result.ok()) {
            write("data: " + error_reply(result.error()).body + "\n\n");
            return;
        }
        json last = final_fields(*result, model);
        last["content"] = "";
        write("data: " + json_text(last) + "\n\n");
    };
    return reply;
}

}  // namespace

void add_completion_route(HttpServer & http, Engine & engine, const ServedModel & model) {
    http.add("POST", "/completion", [&engine, &model](const HttpRequest & request) {
        Result<CompletionRequest> read = read_request(request.body, model);
        if (!read.ok()) {
            return error_reply(read.error());
        }
        auto answer = std::make_shared<Answer>(engine, std::move(read->text), request.peer_closed);
        return read->stream ? streamed(std::move(answer), model) : plain(answer, model);
    });
}

}  // namespace lumi
