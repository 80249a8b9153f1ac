// A server on a free port in front of a scripted engine, for one test.
#pragma once

#include "server/server.h"
#include "support/raw_client.h"
#include "support/scripted_engine.h"

#include <gtest/gtest.h>

#include <thread>

namespace lumi::testing {

class Served : public ::testing::Test {
  protected:
    void start(size_t max_body = 1U << 20U) {
        HttpOptions options;
        options.port = 0;
        options.max_body_bytes = max_body;
        options.max_connections = workers;
        options.idle_seconds = 2;
        model.name = "scripted";
        model.n_vocab = 100;
        model.n_ctx = 64;
        model.piece = [](int32_t id) { return std::to_string(id); };
        http = std::make_unique<HttpServer>(options);
        add_routes(*http, engine, model);
        const Result<int> bound = http->bind();
        ASSERT_TRUE(bound.ok());
        port = *bound;
        thread = std::thread([this] { http->serve(); });
    }

    void stop() {
        if (thread.joinable()) {
            http->stop();
            thread.join();
        }
    }

    void TearDown() override { stop(); }

    // Waits up to two seconds for condition.
    template <typename Condition> static bool eventually(Condition condition) {
        for (int i = 0; i < 200 && !condition(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return condition();
    }

    RawReply post(const std::string & path, const std::string & body) const {
        return request(port, "POST", path, body);
    }

    int workers = 8;
    ScriptedEngine engine;
    ServedModel model;
    std::unique_ptr<HttpServer> http;
    std::thread thread;
    int port = 0;
};

}  // namespace lumi::testing
