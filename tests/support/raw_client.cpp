// Sockets for tests.
#include "support/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace lumi::testing {

RawClient::RawClient(int port) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0) {
        close();
    }
}

RawClient::~RawClient() {
    close();
}

void RawClient::close() {
    if (socket_ >= 0) {
        ::close(socket_);
        socket_ = -1;
    }
}

void RawClient::send(const std::string & bytes) const {
    size_t sent = 0;
    while (sent < bytes.size()) {
        const ssize_t n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) {
            return;
        }
        sent += static_cast<size_t>(n);
    }
}

void RawClient::send_request(const std::string & method, const std::string & path,
                             const std::string & body, const std::string & extra_headers) const {
    send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + extra_headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

bool RawClient::receive_more(int timeout_ms) {
    pollfd waiting{socket_, POLLIN, 0};
    if (socket_ < 0 || ::poll(&waiting, 1, timeout_ms) <= 0) {
        return false;
    }
    char bytes[4096];
    const ssize_t n = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (n <= 0) {
        return false;
    }
    buffer_.append(bytes, static_cast<size_t>(n));
    return true;
}

bool RawClient::ended() {
    pollfd waiting{socket_, POLLIN, 0};
    char byte = 0;
    return ::poll(&waiting, 1, 2000) > 0 && ::recv(socket_, &byte, 1, 0) == 0;
}

std::string RawClient::read_until(const std::string & text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (buffer_.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
        if (!receive_more(100) && socket_ < 0) {
            break;
        }
    }
    return buffer_;
}

RawReply RawClient::read_reply() {
    while (receive_more(10000)) {
        const size_t end = buffer_.find("\r\n\r\n");
        const size_t length = buffer_.find("Content-Length: ");
        if (end != std::string::npos && length != std::string::npos && length < end &&
            buffer_.size() >= end + 4 + std::strtoul(buffer_.c_str() + length + 16, nullptr, 10)) {
            break;
        }
        if (end != std::string::npos && buffer_.size() >= 5 &&
            buffer_.compare(buffer_.size() - 5, 5, "0\r\n\r\n") == 0) {
            break;
        }
    }
    RawReply reply;
    const size_t end = buffer_.find("\r\n\r\n");
    if (buffer_.size() < 12 || end == std::string::npos) {
        return reply;
    }
    reply.status = std::atoi(buffer_.c_str() + 9);
    reply.headers = buffer_.substr(0, end);
    std::string body = buffer_.substr(end + 4);
    if (reply.headers.find("chunked") == std::string::npos) {
        reply.body = body;
        return reply;
    }
    for (size_t at = 0; at < body.size();) {
        const size_t size = std::strtoul(body.c_str() + at, nullptr, 16);
        const size_t start = body.find("\r\n", at);
        if (size == 0 || start == std::string::npos) {
            break;
        }
        reply.body += body.substr(start + 2, size);
        at = start + 2 + size + 2;
    }
    return reply;
}

RawReply request(int port, const std::string & method, const std::string & path,
                 const std::string & body, const std::string & extra_headers) {
    RawClient client(port);
    client.send_request(method, path, body, "Connection: close\r\n" + extra_headers);
    return client.read_reply();
}

}  // namespace lumi::testing
