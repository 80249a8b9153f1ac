// Requests that are wrong, and clients that go away.
#include "unit/server/served.h"

#include <nlohmann/json.hpp>

namespace lumi::testing {

using nlohmann::json;

class ServerHostile : public Served {
  protected:
    // The reply must be this status, JSON in OpenAI's error shape, and the server must live on.
    void expect_refused(const RawReply & reply, int status, const std::string & mention = "") {
        EXPECT_EQ(reply.status, status) << reply.headers << reply.body;
        const json body = json::parse(reply.body, nullptr, false);
        ASSERT_TRUE(body.is_object()) << reply.body;
        ASSERT_TRUE(body.contains("error")) << reply.body;
        EXPECT_NE(body["error"]["message"].get<std::string>().find(mention), std::string::npos)
            << reply.body;
        EXPECT_EQ(request(port, "GET", "/health", "").status, 200);
    }
};

// cases/server.md S10: none of these may end the process.
TEST_F(ServerHostile, S10_BodiesThatAreNotJson) {
    start();
    const std::string deep = std::string(100000, '[');
    const std::string nul("{\"prompt\": \"a\0b\"}", 17);
    const std::string cases[] = {"",     "{:",    "\xe2", "\xb2\xe2\xca\xd4",       "[1,2]",
                                 "null", "\"x\"", deep,   "{\"prompt\": \"\xe2\"}", nul};
    for (const std::string & body : cases) {
        for (const char * path : {"/completion", "/v1/chat/completions", "/train"}) {
            expect_refused(post(path, body), 400);
        }
    }
}

// S16, S20: every number outside its range is a 400 that names the field.
TEST_F(ServerHostile, S20_EveryFieldOutOfRangeIsNamed) {
    start();
    const std::pair<const char *, std::vector<const char *>> fields[] = {
        {"n_predict", {"-2", "1.5", "\"5\"", "2147483648", "[]", "1e999"}},
        {"temperature", {"-0.1", "101", "\"hot\"", "{}", "1e999"}},
        {"top_k", {"-1", "1.5", "\"x\""}},
        {"top_p", {"-0.1", "1.1", "[1]"}},
        {"min_p", {"-0.1", "1.1"}},
        {"repeat_penalty", {"0", "-1", "11"}},
        {"frequency_penalty", {"-3", "3"}},
        {"presence_penalty", {"-3", "3"}},
        {"seed", {"-2", "1.5", "\"x\"", "18446744073709551616"}},
        {"stop", {"5", "[1]", "{}"}},
        {"logit_bias",
         {"[]", "{\"x\": 1}", "{\"100\": 1}", "{\"-1\": 1}", "{\"5\": 1000}", "{\"5\": \"a\"}"}},
        {"stream", {"1", "\"true\""}},
        {"prompt", {"5", "[]", "null"}},
        {"n_probs", {"-1", "21"}},
    };
    for (const auto & [name, values] : fields) {
        for (const char * value : values) {
            const std::string prompt = std::string(name) == "prompt" ? "" : R"("prompt": "a", )";
            const std::string body = "{" + prompt + "\"" + name + "\": " + value + "}";
            const RawReply reply = post("/completion", body);
            EXPECT_EQ(reply.status, 400) << body;
            // 1e999 is refused by the JSON reader itself, which knows no field.
            const char * named = std::string(value) == "1e999" ? "too large" : name;
            EXPECT_NE(reply.body.find(named), std::string::npos) << body << reply.body;
        }
    }
}

TEST_F(ServerHostile, ChatMessagesAreCheckedByPath) {
    start();
    const std::pair<const char *, const char *> cases[] = {
        {R"({})", "messages"},
        {R"({"messages": []})", "messages"},
        {R"({"messages": [5]})", "messages[0]"},
        {R"({"messages": [{"role": "king", "content": "x"}]})", "messages[0].role"},
        {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
        {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
         "messages[0].content[0]"},
        {R"({"messages": [{"role": "user", "content": "x"}], "n": 2})", "n other than 1"},
        {R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0})", "max_tokens"},
        {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{}]})", "tools[0]"},
        {R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}})",
         "response_format"},
    };
    for (const auto & [body, mention] : cases) {
        expect_refused(post("/v1/chat/completions", body), 400, mention);
    }
}

TEST_F(ServerHostile, TrainFieldsAreChecked) {
    start();
    const std::pair<const char *, const char *> cases[] = {
        {R"({})", "messages, corpus"},
        {R"({"corpus": "a", "messages": []})", "messages, corpus"},
        {R"({"corpus": "a", "epochs": 0})", "epochs"},
        {R"({"corpus": "a", "rank": 0})", "rank"},
        {R"({"corpus": "a", "lr": 2})", "lr"},
        {R"({"corpus": "a", "from": "mars"})", "from"},
        {R"({"corpus": 5})", "corpus"},
        {R"({"corpus": "a", "seed": -2})", "or -1 for the default"},
        {R"({"corpus": "a", "epoch": 3})", "unknown field 'epoch'; did you mean epochs?"},
        {R"({"corpus": "a", "shuffle_seed": 3})", "allowed: messages, corpus, epochs"},
        {R"({"messages": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "{broken"}}]}]})",
         "messages[0].tool_calls[0].function.arguments"},
    };
    for (const auto & [body, mention] : cases) {
        expect_refused(post("/train", body), 400, mention);
    }
}

TEST_F(ServerHostile, UnknownPathsAndMethods) {
    start();
    expect_refused(request(port, "GET", "/nothing", ""), 404, "/nothing");
    expect_refused(request(port, "GET", "/completion", ""), 405, "POST");
    expect_refused(request(port, "POST", "/health", "{}"), 405, "GET");
}

TEST_F(ServerHostile, S24_ABodyOverTheLimitIs413) {
    start(4096);
    const RawReply reply = post("/completion", std::string(10000, 'x'));
    EXPECT_EQ(reply.status, 413);
    EXPECT_NE(reply.body.find("error"), std::string::npos);
    RawClient client(port);
    client.send(
        "POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000000\r\n\r\nabc");
    EXPECT_EQ(client.read_reply().status, 413);
}

// curl -d and many scripts call their JSON a form.
TEST_F(ServerHostile, ALongBodyThatCallsItselfAFormIsReadAsJson) {
    start();
    const std::string body = "{\"prompt\": \"" + std::string(20000, 'x') + "&a=b\"}";
    const RawReply reply = request(port, "POST", "/completion", body,
                                   "Content-Type: application/x-www-form-urlencoded\r\n");
    EXPECT_EQ(reply.status, 200) << reply.body;
    ASSERT_EQ(engine.requests().size(), 1U);
    EXPECT_EQ(engine.requests()[0].prompt.size(), 20004U);
}

TEST_F(ServerHostile, MultipartBodiesAreRefused) {
    start();
    expect_refused(request(port, "POST", "/completion", "--b\r\n\r\nx\r\n--b--\r\n",
                           "Content-Type: multipart/form-data; boundary=b\r\n"),
                   400, "multipart");
}

TEST_F(ServerHostile, S25_TwoKindsOfFramingAreRefused) {
    start();
    RawClient client(port);
    client.send("POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                "5\r\nTransfer-Encoding: chunked\r\n"
                "Connection: close\r\n\r\n0\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 400);
}

TEST_F(ServerHostile, S27_OtherOriginsAndHostsAreRefused) {
    start();
    const std::string body = R"({"prompt": "x"})";
    expect_refused(request(port, "POST", "/completion", body, "Origin: https://evil.example\r\n"),
                   403, "origin");
    RawClient client(port);
    client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(client.read_reply().status, 403);
    EXPECT_EQ(request(port, "POST", "/completion", body, "Origin: http://localhost\r\n").status,
              200);
}

TEST_F(ServerHostile, S1_AHangUpDuringAStreamCancels) {
    engine.endless_after = 0;
    engine.piece_delay = std::chrono::milliseconds(5);
    start();
    {
        RawClient client(port);
        client.send_request("POST", "/completion", R"({"prompt": "x", "stream": true})");
        EXPECT_NE(client.read_until("data: ").find("data: "), std::string::npos);
    }
    EXPECT_TRUE(eventually([this] { return engine.cancelled == 1 && engine.running == 0; }));
}

TEST_F(ServerHostile, S3_AHangUpBeforeAPlainAnswerCancels) {
    engine.endless_after = 0;
    engine.piece_delay = std::chrono::milliseconds(5);
    start();
    {
        RawClient client(port);
        client.send_request("POST", "/completion", R"({"prompt": "x"})");
        EXPECT_TRUE(eventually([this] { return engine.running == 1; }));
    }
    EXPECT_TRUE(eventually([this] { return engine.cancelled == 1 && engine.running == 0; }));
}

TEST_F(ServerHostile, AHangUpDuringTrainingCancels) {
    engine.train_delay = std::chrono::milliseconds(60000);
    start();
    {
        RawClient client(port);
        client.send_request("POST", "/train", R"({"corpus": "x"})");
        EXPECT_TRUE(eventually([this] { return engine.lessons().size() == 1; }));
    }
    EXPECT_TRUE(eventually([this] { return engine.cancelled == 1; }));
}

TEST_F(ServerHostile, StoppingCancelsWhatRuns) {
    engine.endless_after = 0;
    engine.piece_delay = std::chrono::milliseconds(5);
    start();
    RawClient client(port);
    client.send_request("POST", "/completion", R"({"prompt": "x"})");
    EXPECT_TRUE(eventually([this] { return engine.running == 1; }));
    stop();
    EXPECT_EQ(engine.cancelled, 1);
}

// A client that sends nothing, one that stops within its headers and one within its body hold
// threads; the server still stops at once, and so does one that was told before it listened.
TEST_F(ServerHostile, StoppingWakesWhoWaitsForASilentClient) {
    start();
    const RawClient silent(port);
    RawClient half_header(port);
    half_header.send("GET /health HTT");
    RawClient half_body(port);
    half_body.send("POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{");
    EXPECT_EQ(request(port, "GET", "/health", "").status, 200);
    const auto started = std::chrono::steady_clock::now();
    stop();
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(1500));
    start();
    stop();
}

// The library loses what it read ahead; so a connection has one answer and then ends, and nobody
// waits for an answer that does not come.
TEST_F(ServerHostile, TwoRequestsInOnePacketGetOneAnswerAndTheEnd) {
    start();
    RawClient client(port);
    const std::string one = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    client.send(one + one);
    const RawReply reply = client.read_reply();
    EXPECT_EQ(reply.status, 200);
    EXPECT_NE(reply.headers.find("Connection: close"), std::string::npos) << reply.headers;
    EXPECT_TRUE(client.ended());
}

// The library's queue of five let the rest wait a second and more for TCP's next try.
TEST_F(ServerHostile, AHundredClientsConnectAtOnce) {
    workers = 128;
    start();
    const auto started = std::chrono::steady_clock::now();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 100; ++i) {
        clients.push_back(std::make_unique<RawClient>(port));
        clients.back()->send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (const auto & client : clients) {
        EXPECT_EQ(client->read_reply().status, 200);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(900));
}

TEST_F(ServerHostile, APortIsServedOnce) {
    start();
    HttpOptions options;
    options.port = port;
    EXPECT_FALSE(HttpServer(options).bind().ok());
}

TEST_F(ServerHostile, SlowClientsDoNotStarveOthers) {
    workers = 64;
    start();
    std::vector<std::unique_ptr<RawClient>> slow;
    for (int i = 0; i < 40; ++i) {
        slow.push_back(std::make_unique<RawClient>(port));
        slow.back()->send("GET /hea");
    }
    const auto started = std::chrono::steady_clock::now();
    EXPECT_EQ(request(port, "GET", "/health", "").status, 200);
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(1500));
}

TEST_F(ServerHostile, S39_TwentyClientsAreAllAnswered) {
    engine.piece_delay = std::chrono::milliseconds(2);
    start();
    std::atomic<int> good{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 20; ++i) {
        clients.emplace_back([&] {
            const RawReply reply = post("/completion", R"({"prompt": "x"})");
            good +=
                reply.status == 200 && reply.body.find("Hello world") != std::string::npos ? 1 : 0;
        });
    }
    for (std::thread & client : clients) {
        client.join();
    }
    EXPECT_EQ(good, 20);
}

}  // namespace lumi::testing
