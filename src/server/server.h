// The HTTP face of a resident model: llama.cpp's /completion, OpenAI's chat, and /train,
// /clear_memory, /health. Handlers talk to an Engine and never touch tensors.
#pragma once

#include "engine/engine.h"
#include "server/http.h"

namespace lumi {

// What handlers must know of the model besides the engine.
struct ServedModel {
    std::string name;
    int n_vocab = 0;
    int n_ctx = 0;
    GenerationOptions defaults;                 // sampling defaults and suppressed tokens
    std::function<std::string(int32_t)> piece;  // text of a token, for log-probabilities
};

// Adds every route to http. engine and model outlive http.
void add_routes(HttpServer & http, Engine & engine, const ServedModel & model);

// Parts of add_routes, one file each.
void add_completion_route(HttpServer & http, Engine & engine, const ServedModel & model);
void add_chat_route(HttpServer & http, Engine & engine, const ServedModel & model);
void add_memory_routes(HttpServer & http, Engine & engine, const ServedModel & model);

}  // namespace lumi
