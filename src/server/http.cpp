// The only file that includes cpp-httplib (0.11 and newer).
#include "server/http.h"

#include "base/log.h"
#include "base/utf8.h"

#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

namespace lumi {

namespace {

constexpr int kMaxDescriptor = 4096;

// Every connection that clients opened to our port.
void shut_connections(int port, int how) {
    for (int fd = 3; fd < kMaxDescriptor; ++fd) {
        sockaddr_storage address{};
        socklen_t length = sizeof(address);
        if (::getpeername(fd, reinterpret_cast<sockaddr *>(&address), &length) != 0 ||
            ::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &length) != 0) {
            continue;
        }
        const auto & v4 = reinterpret_cast<const sockaddr_in &>(address);
        const auto & v6 = reinterpret_cast<const sockaddr_in6 &>(address);
        const bool ours = address.ss_family == AF_INET    ? ntohs(v4.sin_port) == port
                          : address.ss_family == AF_INET6 ? ntohs(v6.sin6_port) == port
                                                          : false;
        if (ours) {
            ::shutdown(fd, how);
        }
    }
}

#ifndef LUMI_HTTPLIB_HAS_CONNECTION_CLOSED
// Old versions hide the connection's socket from handlers; it is the one whose peer is the
// request's.
int socket_of(const httplib::Request & request) {
    for (int fd = 3; fd < kMaxDescriptor; ++fd) {
        sockaddr_storage address{};
        socklen_t length = sizeof(address);
        if (::getpeername(fd, reinterpret_cast<sockaddr *>(&address), &length) != 0) {
            continue;
        }
        char host[NI_MAXHOST];
        char port[NI_MAXSERV];
        if (::getnameinfo(reinterpret_cast<sockaddr *>(&address), length, host, sizeof(host), port,
                          sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
            request.remote_addr == host && std::to_string(request.remote_port) == port) {
            return fd;
        }
    }
    return -1;
}

bool socket_closed(int socket) {
    if (socket < 0) {
        return false;
    }
    char byte = 0;
    const ssize_t n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}
#endif

std::string error_body(std::string_view message, std::string_view type, std::string_view code) {
    nlohmann::json body;
    body["error"] = {
        {"message", utf8_sanitized(message)}, {"type", type}, {"code", code}, {"param", nullptr}};
    return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool loopback_name(std::string_view host) {
    if (!host.empty() && host.front() == '[') {
        return host.substr(0, host.find(']') + 1) == "[::1]";
    }
    const std::string_view name = host.substr(0, host.find(':'));
    return name == "localhost" || name == "127.0.0.1";
}

bool is_loopback_bind(const std::string & host) {
    return host == "127.0.0.1" || host == "localhost" || host == "::1";
}

}  // namespace

HttpReply json_error(int status, std::string_view message, std::string_view type,
                     std::string_view code) {
    HttpReply reply;
    reply.status = status;
    reply.body = error_body(message, type, code);
    return reply;
}

HttpReply error_reply(const Error & error) {
    switch (error.kind) {
    case ErrorKind::invalid_argument:
    case ErrorKind::invalid_file:
    case ErrorKind::unsupported:
        return json_error(400, error.message, "invalid_request_error", error_kind_name(error.kind));
    case ErrorKind::out_of_memory:
        return json_error(503, error.message, "server_error", error_kind_name(error.kind));
    case ErrorKind::cancelled:
        return json_error(499, error.message, "cancelled", error_kind_name(error.kind));
    default:
        return json_error(500, error.message, "server_error", error_kind_name(error.kind));
    }
}

struct HttpServer::Impl {
    HttpOptions options;
    httplib::Server server;
    std::map<std::string, std::map<std::string, Handler>> routes;  // path -> method -> handler
    std::atomic<bool> stopping = false;
    std::atomic<bool> serving = false;
    int listener = -1;

    // What is wrong with the request before any handler sees it; status 0 when nothing is.
    HttpReply refuse(const httplib::Request & request) const {
        if (request.has_header("Transfer-Encoding") && request.has_header("Content-Length")) {
            return json_error(400, "both Content-Length and Transfer-Encoding are set",
                              "invalid_request_error", "bad_framing");
        }
        if (is_loopback_bind(options.host)) {
            // A page on the web may reach 127.0.0.1 through DNS; its Host or Origin gives it away.
            if (!loopback_name(request.get_header_value("Host"))) {
                return json_error(403,
                                  "the Host header must name this machine (localhost or 127.0.0.1)",
                                  "invalid_request_error", "bad_host");
            }
        }
        const std::string origin = request.get_header_value("Origin");
        if (!origin.empty() && origin != "http://" + request.get_header_value("Host")) {
            return json_error(403, "requests from other web origins are not allowed",
                              "invalid_request_error", "bad_origin");
        }
        HttpReply fine;
        fine.status = 0;
        return fine;
    }

    HttpReply dispatch(const httplib::Request & request, std::string body) const {
        const auto path = routes.find(request.path);
        if (path == routes.end()) {
            return json_error(404, "no such path: " + request.path, "invalid_request_error",
                              "not_found");
        }
        const std::string method = request.method == "HEAD" ? "GET" : request.method;
        const auto handler = path->second.find(method);
        if (handler == path->second.end()) {
            std::string allowed;
            for (const auto & [name, unused] : path->second) {
                allowed += (allowed.empty() ? "" : ", ") + name;
            }
            HttpReply reply = json_error(405, "method not allowed here; allowed: " + allowed,
                                         "invalid_request_error", "method_not_allowed");
            reply.headers.emplace_back("Allow", allowed);
            return reply;
        }
        HttpRequest ours;
        ours.method = method;
        ours.path = request.path;
        ours.body = std::move(body);
#ifdef LUMI_HTTPLIB_HAS_CONNECTION_CLOSED
        const auto closed = request.is_connection_closed;
#else
        const auto closed = [socket = socket_of(request)] { return socket_closed(socket); };
#endif
        // A server that stops treats every client as gone, so that running work is cancelled.
        ours.peer_closed = [this, closed] { return stopping || closed(); };
        return handler->second(ours);
    }

    // Reads the body as it is. Left to itself the library would parse what curl -d calls a form,
    // and refuse such a body over 8 KiB. The limit holds for what a compressed body unpacks to as
    // well.
    void answer_with_body(const httplib::Request & request, httplib::Response & response,
                          const httplib::ContentReader & reader) const {
        if (request.is_multipart_form_data()) {
            return send(json_error(400, "multipart bodies are not read; send JSON",
                                   "invalid_request_error", "bad_request"),
                        response);
        }
        // Neither length nor chunks: there is no body (curl -X POST). The library would wait for
        // one.
        if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) {
            return answer(request, response, {});
        }
        std::string body;
        const bool read = reader([&](const char * data, size_t size) {
            body.append(data, size);
            return body.size() <= options.max_body_bytes;
        });
        if (body.size() > options.max_body_bytes) {
            response.status = 413;
        }
        if (read) {
            answer(request, response, std::move(body));
        } else if (response.status <= 0) {
            response.status = 400;
        }
    }

    void answer(const httplib::Request & request, httplib::Response & response,
                std::string body) const {
        HttpReply reply = refuse(request);
        if (reply.status == 0) {
            try {
                reply = dispatch(request, std::move(body));
            } catch (const std::exception & e) {
                log(LogLevel::error, std::string("handler of ") + request.path + ": " + e.what());
                reply = json_error(500, "internal error", "server_error", "internal");
            }
        }
        send(std::move(reply), response);
    }

    static void send(HttpReply reply, httplib::Response & response) {
        response.status = reply.status;
        for (const auto & [name, value] : reply.headers) {
            response.set_header(name, value);
        }
        if (!reply.stream) {
            response.set_content(reply.body, reply.content_type);
            return;
        }
        response.set_chunked_content_provider(
            reply.content_type,
            [stream = std::move(reply.stream)](size_t, httplib::DataSink & sink) {
                stream([&sink](std::string_view piece) {
                    return sink.is_writable() && sink.write(piece.data(), piece.size());
                });
                sink.done();
                return true;
            });
    }
};

HttpServer::HttpServer(HttpOptions options) : impl_(std::make_unique<Impl>()) {
    impl_->options = std::move(options);
    httplib::Server & server = impl_->server;
    const int threads = impl_->options.max_connections;
    server.new_task_queue = [threads] {
        return new httplib::ThreadPool(static_cast<size_t>(threads));
    };
    server.set_payload_max_length(impl_->options.max_body_bytes);
    server.set_read_timeout(impl_->options.idle_seconds);
    server.set_write_timeout(impl_->options.idle_seconds);
    // One request a connection. The library reads ahead and forgets what it read with each request,
    // so that a second one in the same packet would be lost or its middle taken for a request; and
    // an idle connection would hold a thread.
    server.set_keep_alive_max_count(1);
    server.set_tcp_nodelay(true);
    // The library's own options would let a second server take the same port and half the clients.
    server.set_socket_options([this](int socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        impl_->listener = socket;
    });
    const auto plain = [this](const httplib::Request & request, httplib::Response & response) {
        impl_->answer(request, response, {});
    };
    const auto with_body = [this](const httplib::Request & request, httplib::Response & response,
                                  const httplib::ContentReader & reader) {
        impl_->answer_with_body(request, response, reader);
    };
    server.Get(".*", plain);
    server.Options(".*", plain);
    server.Post(".*", with_body);
    server.Put(".*", with_body);
    server.Patch(".*", with_body);
    server.Delete(".*", with_body);
    // Errors that arise before a handler runs (bad framing, too large) get the same JSON shape.
    server.set_error_handler([](const httplib::Request &, httplib::Response & response) {
        if (!response.body.empty()) {
            return;
        }
        const char * text =
            response.status == 413 ? "the request body is too large" : "the request cannot be read";
        response.set_content(error_body(text, "invalid_request_error", "bad_request"),
                             "application/json");
    });
}

HttpServer::~HttpServer() = default;

void HttpServer::add(const std::string & method, const std::string & path, Handler handler) {
    impl_->routes[path][method] = std::move(handler);
}

Result<int> HttpServer::bind() {
    HttpOptions & options = impl_->options;
    bool bound = false;
    if (options.port == 0) {
        options.port = impl_->server.bind_to_any_port(options.host);
        bound = options.port > 0;
    } else {
        bound = impl_->server.bind_to_port(options.host, options.port);
    }
    if (bound) {
        // The library queues five; who connects beyond that waits a second for the next try.
        ::listen(impl_->listener, SOMAXCONN);
        return options.port;
    }
    return Error{ErrorKind::io, "cannot listen on " + options.host + ":" +
                                    std::to_string(options.port) +
                                    " (is the port in use? choose another with --port)"};
}

void HttpServer::serve() {
    impl_->serving = true;
    if (!impl_->stopping) {
        impl_->server.listen_after_bind();
    }
    impl_->serving = false;
}

void HttpServer::stop() {
    using std::chrono::steady_clock;
    constexpr std::chrono::seconds kGrace{1};
    impl_->stopping = true;
    const auto started = steady_clock::now();
    // Told once it listens: before that the library would not hear it. A thread that waits for a
    // client's next byte sees the end; one that cannot write to its client is given a moment.
    for (bool told = false; impl_->serving;) {
        if (!told && impl_->server.is_running()) {
            impl_->server.stop();
            told = true;
        }
        const bool patient = steady_clock::now() - started < kGrace;
        shut_connections(impl_->options.port, patient ? SHUT_RD : SHUT_RDWR);
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
}

}  // namespace lumi
