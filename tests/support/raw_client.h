// A TCP client that sends exactly the bytes it is given: for framing, hang-ups and hostile
// requests.
#pragma once

#include <string>

namespace lumi::testing {

struct RawReply {
    int status = 0;
    std::string headers;
    std::string body;  // chunked bodies decoded
};

class RawClient {
  public:
    explicit RawClient(int port);
    RawClient(const RawClient &) = delete;
    RawClient & operator=(const RawClient &) = delete;
    ~RawClient();
    void send(const std::string & bytes) const;
    // A whole request with its length; the connection stays open unless a header says otherwise.
    void send_request(const std::string & method, const std::string & path,
                      const std::string & body, const std::string & extra_headers = "") const;
    // Until at least this text has arrived, or two seconds passed.
    std::string read_until(const std::string & text);
    // The whole reply (the server closes, or the length is known).
    RawReply read_reply();
    // Whether the server has closed the connection, after at most two seconds.
    bool ended();
    void close();

  private:
    bool receive_more(int timeout_ms);
    int socket_ = -1;
    std::string buffer_;
};

// One request on a connection of its own; extra_headers are lines ending in \r\n.
RawReply request(int port, const std::string & method, const std::string & path,
                 const std::string & body, const std::string & extra_headers = "");

}  // namespace lumi::testing
