// One log sink with levels. The library never prints by itself: the default sink drops everything;
// the command line installs one that writes to stderr. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lumi {

enum class LogLevel : unsigned char { debug, info, warning, error };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// Replaces the sink; an empty one drops everything.
void set_log_sink(LogSink sink);
void log(LogLevel level, std::string_view message);

}  // namespace lumi
