// The bridge between the compute thread and an HTTP thread.
#include "server/answer.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace lumi {

namespace {

constexpr std::chrono::milliseconds kPollInterval{50};

}  // namespace

struct Answer::Channel {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<AnswerPiece> pieces;
    bool done = false;
};

Answer::Answer(Engine & engine, TextRequest request, std::function<bool()> peer_closed)
    : channel_(std::make_shared<Channel>()), cancel_(std::make_shared<CancelToken>()),
      peer_closed_(std::move(peer_closed)) {
    // The sink keeps the channel alive: the compute thread may still hold it after we are gone.
    TextSink sink = [channel = channel_](const OutputDelta & delta, const GenerationStep & step) {
        const std::lock_guard lock(channel->mutex);
        channel->pieces.push_back({delta, step});
        channel->done = channel->done || step.done;
        channel->changed.notify_all();
        return true;
    };
    future_ = engine.submit(std::move(request), std::move(sink), cancel_);
}

Answer::~Answer() {
    cancel_->cancel();
    if (future_.valid()) {
        future_.wait();
    }
}

Result<AnswerPiece> Answer::first() {
    AnswerPiece piece;
    if (next(piece)) {
        return piece;
    }
    const Result<TextResult> ended = result();
    return ended.ok() ? Error{ErrorKind::internal, "an answer without a piece"} : ended.error();
}

bool Answer::next(AnswerPiece & piece) {
    while (!client_left()) {
        {
            std::unique_lock lock(channel_->mutex);
            channel_->changed.wait_for(lock, kPollInterval, [this] {
                return !channel_->pieces.empty() || channel_->done;
            });
            if (!channel_->pieces.empty()) {
                piece = std::move(channel_->pieces.front());
                channel_->pieces.pop_front();
                return true;
            }
            if (channel_->done) {
                return false;
            }
        }
        // A request that failed, or was cancelled in the queue, never sends a last piece.
        if (future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
            const std::lock_guard lock(channel_->mutex);
            if (channel_->pieces.empty()) {
                return false;
            }
        }
    }
    cancel_->cancel();
    return false;
}

// Asks the socket, but not for every piece of a fast answer.
bool Answer::client_left() {
    const auto now = std::chrono::steady_clock::now();
    if (!peer_closed_ || now - last_look_ < kPollInterval) {
        return false;
    }
    last_look_ = now;
    return peer_closed_();
}

Result<TextResult> Answer::result() {
    return wait_for_client(future_, peer_closed_, [this] { cancel_->cancel(); });
}

void Answer::cancel() {
    cancel_->cancel();
}

}  // namespace lumi
