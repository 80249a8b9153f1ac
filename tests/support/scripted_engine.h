// An Engine that says what it is told to, so that server tests need no weights.
#pragma once

#include "engine/engine.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace lumi::testing {

class ScriptedEngine final : public Engine {
  public:
    std::vector<std::string> pieces = {"Hel", "lo ", "wor", "ld"};
    std::chrono::milliseconds piece_delay{0};
    int endless_after = -1;  // >= 0: after this many pieces, go on with "x" until cancelled
    std::optional<Error> failure;
    std::chrono::milliseconds train_delay{0};

    std::atomic<int> cancelled{0};
    std::atomic<int> finished{0};
    std::atomic<int> running{0};
    std::atomic<int> cleared{0};

    std::vector<TextRequest> requests() const {
        const std::lock_guard lock(mutex_);
        return requests_;
    }
    std::vector<TrainRequest> lessons() const {
        const std::lock_guard lock(mutex_);
        return lessons_;
    }

    ~ScriptedEngine() override {
        for (std::thread & thread : threads_) {
            thread.join();
        }
    }

    std::future<Result<TextResult>> submit(TextRequest request, TextSink sink,
                                           std::shared_ptr<CancelToken> cancel) override {
        auto promise = std::make_shared<std::promise<Result<TextResult>>>();
        auto future = promise->get_future();
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        threads_.emplace_back([this, promise, sink = std::move(sink), cancel = std::move(cancel)] {
            ++running;
            promise->set_value(speak(sink, *cancel));
            --running;
        });
        return future;
    }

    std::future<Result<TrainResult>> train(TrainRequest request,
                                           std::function<void(const TrainProgress &)>,
                                           std::shared_ptr<CancelToken> cancel) override {
        auto promise = std::make_shared<std::promise<Result<TrainResult>>>();
        auto future = promise->get_future();
        const std::lock_guard lock(mutex_);
        lessons_.push_back(std::move(request));
        threads_.emplace_back([this, promise, cancel = std::move(cancel)] {
            const auto until = std::chrono::steady_clock::now() + train_delay;
            while (std::chrono::steady_clock::now() < until && !cancel->cancelled()) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
            if (cancel->cancelled()) {
                ++cancelled;
                promise->set_value(Error{ErrorKind::cancelled, "cancelled"});
                return;
            }
            TrainResult result;
            result.revision = "r1";
            result.samples = 1;
            result.summary.epoch_train_loss = {3.0, 1.0};
            result.summary.steps = 2;
            promise->set_value(result);
        });
        return future;
    }

    std::future<Status> clear_memory() override {
        ++cleared;
        return ready({});
    }
    std::future<Status> load_memory(AdapterData, float) override { return ready({}); }
    Result<AdapterData> memory() const override {
        return Error{ErrorKind::invalid_argument, "nothing"};
    }
    EngineStatus status() const override {
        EngineStatus status;
        status.model_name = "scripted";
        status.n_embd = 128;
        return status;
    }

  private:
    static std::future<Status> ready(Status status) {
        std::promise<Status> promise;
        promise.set_value(std::move(status));
        return promise.get_future();
    }

    Result<TextResult> speak(const TextSink & sink, const CancelToken & cancel) {
        if (failure) {
            return *failure;
        }
        TextResult result;
        for (size_t i = 0; i < pieces.size() || endless_after >= 0; ++i) {
            std::this_thread::sleep_for(piece_delay);
            const bool last = endless_after < 0 && i + 1 == pieces.size();
            OutputDelta delta;
            delta.content = i < pieces.size() ? pieces[i] : "x";
            GenerationStep step;
            step.text = delta.content;
            step.token = static_cast<int32_t>(i);
            step.done = last;
            result.output.content += delta.content;
            if (cancel.cancelled() || !sink(delta, step)) {
                ++cancelled;
                return Error{ErrorKind::cancelled, "cancelled"};
            }
        }
        result.finish = FinishReason::end_token;
        result.times.generated_tokens = static_cast<int>(pieces.size());
        ++finished;
        return result;
    }

    mutable std::mutex mutex_;
    std::vector<TextRequest> requests_;
    std::vector<TrainRequest> lessons_;
    std::vector<std::thread> threads_;
};

}  // namespace lumi::testing
