// What a run will need, said before anything is allocated. Anonymous and mapped bytes apart.
#pragma once

#include <lumi/error.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lumi {

struct MemoryItem {
    std::string what;  // "KV cache, 4096 tokens, f16"
    uint64_t bytes = 0;
    bool mapped = false;  // backed by the file, reclaimable
};

struct MemoryPlan {
    std::vector<MemoryItem> items;
    void add(std::string what, uint64_t bytes, bool mapped = false) {
        items.push_back({std::move(what), bytes, mapped});
    }
    uint64_t anonymous_bytes() const;
    uint64_t mapped_bytes() const;
    std::string text() const;  // a table, one item a line
    // Fails with the numbers, naming hint ("--ctx-size, --no-repack") when anonymous bytes exceed
    // the limit (0 = what the system has available now).
    Status enforce(uint64_t limit_bytes, const std::string & hint) const;
};

uint64_t available_memory_bytes();
uint64_t resident_memory_bytes();        // of this process; 0 where the system does not tell
std::string bytes_text(uint64_t bytes);  // "4.62 GiB"

}  // namespace lumi
