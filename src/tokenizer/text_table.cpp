// Open addressing with linear probing at a load of at most one half.
#include "tokenizer/text_table.h"

#include <bit>
#include <cstring>

namespace lumi {

namespace {

// Honest vocabularies probe a few dozen slots at worst.
constexpr size_t kMaxProbes = 4096;

uint64_t mixed(uint64_t x) {
    x *= 0x9e3779b97f4a7c15U;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9U;
    return x ^ (x >> 32);
}

uint64_t text_hash(std::string_view text) {
    uint64_t hash = text.size();
    while (text.size() >= 8) {
        uint64_t word = 0;
        std::memcpy(&word, text.data(), 8);
        hash = mixed(hash ^ word);
        text.remove_prefix(8);
    }
    uint64_t tail = 0;
    if (!text.empty()) {
        std::memcpy(&tail, text.data(), text.size());
    }
    return mixed(hash ^ tail);
}

}  // namespace

TextTable::TextTable(size_t count)
    : slots_(std::bit_ceil(2 * count + 2), Slot{nullptr, 0, -1}), mask_(slots_.size() - 1) {}

TextTable::Insert TextTable::insert(std::string_view text, int32_t id) {
    size_t at = text_hash(text) & mask_;
    for (size_t probes = 0; probes < kMaxProbes && probes < slots_.size(); ++probes) {
        Slot & slot = slots_[at];
        if (slot.id < 0) {
            slot = {text.data(), static_cast<uint32_t>(text.size()), id};
            return Insert::added;
        }
        if (std::string_view(slot.data, slot.size) == text) {
            return Insert::duplicate;
        }
        at = (at + 1) & mask_;
    }
    return Insert::clustered;
}

int32_t TextTable::find(std::string_view text) const {
    size_t at = text_hash(text) & mask_;
    while (slots_[at].id >= 0) {
        if (std::string_view(slots_[at].data, slots_[at].size) == text) {
            return slots_[at].id;
        }
        at = (at + 1) & mask_;
    }
    return -1;
}

}  // namespace lumi
