// Runs one text request from an HTTP thread: submits it, hands its pieces over from the compute
// thread, and cancels it when the client hangs up, whatever state it is in.
#pragma once

#include "engine/engine.h"
#include "server/http.h"

#include <chrono>

namespace lumi {

// One piece of an answer on its way to the client.
struct AnswerPiece {
    OutputDelta delta;
    GenerationStep step;
};

class Answer {
  public:
    Answer(Engine & engine, TextRequest request, std::function<bool()> peer_closed);
    ~Answer();  // cancels what is still running and waits for it

    // The first piece decides the status of a streamed reply: what fails before it is an error
    // reply, not a stream.
    Result<AnswerPiece> first();
    // The next piece; false when there is none any more (then result() is ready) or the client
    // left.
    bool next(AnswerPiece & piece);
    // Waits for the end. cancelled when the client hung up.
    Result<TextResult> result();
    void cancel();

  private:
    struct Channel;
    bool client_left();
    std::shared_ptr<Channel> channel_;
    std::shared_ptr<CancelToken> cancel_;
    std::function<bool()> peer_closed_;
    std::chrono::steady_clock::time_point last_look_{};
    std::future<Result<TextResult>> future_;
};

// Waits for a future, calling on_closed once when the client hangs up.
template <typename T> T wait_for_client(std::future<T> & future,
                                        const std::function<bool()> & peer_closed,
                                        const std::function<void()> & on_closed) {
    bool told = false;
    while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
        if (!told && peer_closed && peer_closed()) {
            on_closed();
            told = true;
        }
    }
    return future.get();
}

}  // namespace lumi
