// cpp-httplib behind our own limits, framing and error text: handlers see a request, return a
// reply, and never touch the library. One route table, exact paths. Every error is JSON in OpenAI's
// shape.
#pragma once

#include <lumi/error.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lumi {

struct HttpRequest {
    std::string method;
    std::string path;
    std::string body;
    std::function<bool()> peer_closed;  // true once the client has hung up
};

// Sends a piece of a streamed body; false when the client is gone.
using HttpWrite = std::function<bool(std::string_view)>;

struct HttpReply {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    std::function<void(const HttpWrite &)> stream;  // when set, produces the body piece by piece
};

HttpReply json_error(int status, std::string_view message, std::string_view type,
                     std::string_view code);
// 400, 404, 500 ... by the error's kind.
HttpReply error_reply(const Error & error);

struct HttpOptions {
    std::string host = "127.0.0.1";
    int port = 8080;  // 0 = any free port
    size_t max_body_bytes = 64U << 20U;
    int max_connections =
        256;                // worker threads: a slow client holds one, an idle thread costs little
    int idle_seconds = 30;  // a silent client is dropped after this
};

class HttpServer {
  public:
    using Handler = std::function<HttpReply(const HttpRequest &)>;

    explicit HttpServer(HttpOptions options);
    ~HttpServer();
    void add(const std::string & method, const std::string & path, Handler handler);
    // Binds; the port that was taken.
    Result<int> bind();
    // Serves until stop(); call bind() first.
    void serve();
    // Ends what runs and returns when serve() has; any thread. Whoever waits for a client is woken.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lumi
