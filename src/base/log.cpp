// The log sink and its lock. The sink runs outside the lock, so that it may log itself.
#include "base/log.h"

#include <mutex>
#include <utility>

namespace lumi {

namespace {

std::mutex sink_mutex;

LogSink & current_sink() {
    static LogSink sink;
    return sink;
}

}  // namespace

void set_log_sink(LogSink sink) {
    const std::lock_guard<std::mutex> lock(sink_mutex);
    current_sink() = std::move(sink);
}

void log(LogLevel level, std::string_view message) {
    LogSink sink;
    {
        const std::lock_guard<std::mutex> lock(sink_mutex);
        sink = current_sink();
    }
    if (sink) {
        sink(level, message);
    }
}

}  // namespace lumi
