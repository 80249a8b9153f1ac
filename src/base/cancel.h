// A flag that asks running work to stop at its next step. Set from any thread or a signal handler.
#pragma once

#include <atomic>

namespace lumi {

class CancelToken {
  public:
    void cancel() { flag_.store(true, std::memory_order_relaxed); }
    void reset() { flag_.store(false, std::memory_order_relaxed); }
    bool cancelled() const { return flag_.load(std::memory_order_relaxed); }

  private:
    std::atomic<bool> flag_ = false;
};

}  // namespace lumi
