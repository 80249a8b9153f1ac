// What each route answers.
#include "unit/server/served.h"

#include <nlohmann/json.hpp>

namespace lumi::testing {

using nlohmann::json;

// The data lines of an event stream.
std::vector<std::string> events(const std::string & body) {
    std::vector<std::string> out;
    for (size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
        const size_t end = body.find("\n\n", at);
        out.push_back(body.substr(at + 6, end - at - 6));
        at = end;
    }
    return out;
}

TEST_F(Served, CompletionUsesLlamaCppFieldNames) {
    start();
    const RawReply reply =
        post("/completion", R"({"prompt": "Say hello", "n_predict": 8, "temperature": 0})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const json body = json::parse(reply.body);
    EXPECT_EQ(body["content"], "Hello world");
    EXPECT_EQ(body["stop_type"], "eos");
    EXPECT_EQ(body["tokens_predicted"], 4);
    ASSERT_EQ(engine.requests().size(), 1U);
    EXPECT_EQ(engine.requests()[0].prompt, "Say hello");
    EXPECT_EQ(engine.requests()[0].generation.max_tokens, 8);
    EXPECT_EQ(engine.requests()[0].generation.sampler.temperature, 0.0F);
    EXPECT_FALSE(engine.requests()[0].is_chat);
}

TEST_F(Served, CompletionStreamAddsUpToThePlainAnswer) {
    start();
    const RawReply reply = post("/completion", R"({"prompt": "Say hello", "stream": true})");
    ASSERT_EQ(reply.status, 200);
    std::string text;
    json last;
    for (const std::string & event : events(reply.body)) {
        last = json::parse(event);
        text += last["content"].get<std::string>();
    }
    EXPECT_EQ(text, "Hello world");
    EXPECT_EQ(last["stop"], true);
}

TEST_F(Served, ChatAnswersInOpenAiShape) {
    start();
    const RawReply reply =
        post("/v1/chat/completions",
             R"({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5, "seed": 7})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const json body = json::parse(reply.body);
    EXPECT_EQ(body["object"], "chat.completion");
    EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello world");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(body["usage"]["completion_tokens"], 4);
    ASSERT_EQ(engine.requests().size(), 1U);
    EXPECT_TRUE(engine.requests()[0].is_chat);
    EXPECT_EQ(engine.requests()[0].messages[0].content, "Hi");
    EXPECT_EQ(engine.requests()[0].generation.sampler.seed, 7U);
}

TEST_F(Served, ChatStreamEndsWithDone) {
    start();
    const RawReply reply = post("/v1/chat/completions",
                                R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true,
                                         "stream_options": {"include_usage": true}})");
    const std::vector<std::string> list = events(reply.body);
    ASSERT_GE(list.size(), 4U);
    EXPECT_EQ(list.back(), "[DONE]");
    std::string text;
    for (size_t i = 0; i + 3 < list.size(); ++i) {
        const json event = json::parse(list[i]);
        EXPECT_EQ(event["object"], "chat.completion.chunk");
        text += event["choices"][0]["delta"].value("content", "");
    }
    EXPECT_EQ(text, "Hello world");
    EXPECT_EQ(json::parse(list[0])["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(json::parse(list[list.size() - 3])["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(json::parse(list[list.size() - 2])["usage"]["completion_tokens"], 4);
}

TEST_F(Served, ChatReadsTextPartsAndTools) {
    start();
    const RawReply reply = post("/v1/chat/completions", R"({"messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": null}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const TextRequest seen = engine.requests()[0];
    EXPECT_EQ(seen.messages[0].role, Role::system);
    EXPECT_EQ(seen.messages[1].content, "ab");
    EXPECT_EQ(seen.messages[2].tool_calls[0].name, "f");
    EXPECT_EQ(seen.messages[3].role, Role::tool);
    EXPECT_EQ(seen.tools[0].name, "f");
}

TEST_F(Served, TrainReportsLossesAndARevision) {
    start();
    const RawReply reply = post("/train", R"({"messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"}], "epochs": 3, "rank": 4, "lr": 0.002})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const json body = json::parse(reply.body);
    EXPECT_EQ(body["ok"], true);
    EXPECT_EQ(body["revision"], "r1");
    EXPECT_EQ(body["losses"], json({3.0, 1.0}));
    const TrainRequest seen = engine.lessons()[0];
    EXPECT_EQ(seen.chats.size(), 1U);
    EXPECT_EQ(seen.options.epochs, 3);
    EXPECT_EQ(seen.options.rank, 4);
    EXPECT_FLOAT_EQ(seen.options.alpha, 8.0F);
}

TEST_F(Served, TrainTakesSeveralConversations) {
    start();
    const char * chat =
        R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])";
    const RawReply reply =
        post("/train", std::string("{\"messages\": [") + chat + "," + chat + "]}");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(engine.lessons()[0].chats.size(), 2U);
}

TEST_F(Served, ClearMemoryReachesTheEngine) {
    start();
    const RawReply reply = post("/clear_memory", "");
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(json::parse(reply.body)["ok"], true);
    EXPECT_EQ(engine.cleared, 1);
}

// What curl -X POST sends; a server that waits for a body answers only after its idle limit.
TEST_F(Served, ClearMemoryNeedsNoBodyAtAllAndAnswersAtOnce) {
    start();
    RawClient client(port);
    client.send("POST /clear_memory HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(client.read_until("{\"ok\":true}").find("200"), std::string::npos);
    EXPECT_EQ(engine.cleared, 1);
}

TEST_F(Served, HealthAndModelsAnswer) {
    start();
    EXPECT_EQ(json::parse(request(port, "GET", "/health", "").body)["ok"], true);
    EXPECT_EQ(json::parse(request(port, "GET", "/v1/models", "").body)["data"][0]["id"],
              "scripted");
}

TEST_F(Served, AnErrorBeforeTheFirstTokenIsAStatusEvenForAStream) {
    engine.failure =
        Error{ErrorKind::invalid_argument, "the prompt has 90 tokens but the context holds 64"};
    start();
    for (const char * stream : {"true", "false"}) {
        const RawReply reply =
            post("/completion", std::string(R"({"prompt": "x", "stream": )") + stream + "}");
        EXPECT_EQ(reply.status, 400);
        EXPECT_EQ(json::parse(reply.body)["error"]["message"], engine.failure->message);
    }
}

}  // namespace lumi::testing
