// Sums, prints and enforces a memory plan.

#include "device/memory_plan.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

#include <unistd.h>

namespace lumi {

namespace {

uint64_t sum_of(const std::vector<MemoryItem> & items, bool mapped) {
    uint64_t sum = 0;
    for (const MemoryItem & item : items) {
        if (item.mapped == mapped && __builtin_add_overflow(sum, item.bytes, &sum)) {
            return std::numeric_limits<uint64_t>::max();
        }
    }
    return sum;
}

std::string line_text(const std::string & what, uint64_t bytes, const char * note) {
    constexpr size_t kNameWidth = 48;
    std::string line = "  " + what;
    line.resize(std::max(line.size() + 1, kNameWidth), ' ');
    const std::string number = bytes_text(bytes);
    line.append(number.size() < 10 ? 10 - number.size() : 0, ' ');
    return line + number + note + "\n";
}

}  // namespace

uint64_t MemoryPlan::anonymous_bytes() const {
    return sum_of(items, false);
}
uint64_t MemoryPlan::mapped_bytes() const {
    return sum_of(items, true);
}

std::string MemoryPlan::text() const {
    std::string out;
    for (const MemoryItem & item : items) {
        out += line_text(item.what, item.bytes, item.mapped ? "  mapped" : "");
    }
    out += line_text("total", anonymous_bytes(), "");
    if (mapped_bytes() > 0) {
        out += line_text("total mapped from the file", mapped_bytes(), "  mapped");
    }
    return out;
}

Status MemoryPlan::enforce(uint64_t limit_bytes, const std::string & hint) const {
    const uint64_t limit = limit_bytes > 0 ? limit_bytes : available_memory_bytes();
    if (anonymous_bytes() <= limit) {
        return {};
    }
    return Error{ErrorKind::out_of_memory,
                 "this needs " + bytes_text(anonymous_bytes()) + " of memory, " +
                     (limit_bytes > 0 ? "the limit is " : "the system has available ") +
                     bytes_text(limit) + "; " + hint + " would make it smaller\n" + text()};
}

uint64_t available_memory_bytes() {
    std::ifstream file("/proc/meminfo");
    std::string key;
    uint64_t kib = 0;
    std::string unit;
    while (file >> key >> kib) {
        std::getline(file, unit);
        if (key == "MemAvailable:") {
            return kib * 1024;
        }
    }
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0
               ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes)
               : 0;
}

uint64_t resident_memory_bytes() {
    std::ifstream file("/proc/self/statm");
    uint64_t total_pages = 0;
    uint64_t resident_pages = 0;
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return file >> total_pages >> resident_pages && page_bytes > 0
               ? resident_pages * static_cast<uint64_t>(page_bytes)
               : 0;
}

std::string bytes_text(uint64_t bytes) {
    constexpr const char * kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
        value /= 1024.0;
        ++unit;
    }
    char text[32];
    std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
    return text;
}

}  // namespace lumi
