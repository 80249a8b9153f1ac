// Open addressing with linear probing at a load of at most one half.
#include "tokenizer/merge_table.h"

#include <bit>

namespace lumi {

namespace {

constexpr size_t kMaxProbes = 4096;

uint64_t pair_key(TokenId left, TokenId right) {
    return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

size_t pair_hash(uint64_t key) {
    key *= 0x9e3779b97f4a7c15U;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93U;
    return key ^ (key >> 32);
}

}  // namespace

MergeTable::MergeTable(size_t count)
    : slots_(std::bit_ceil(2 * count + 2), Slot{0, {}}), mask_(slots_.size() - 1) {}

bool MergeTable::insert(TokenId left, TokenId right, MergeCandidate merge) {
    const uint64_t key = pair_key(left, right);
    size_t at = pair_hash(key) & mask_;
    for (size_t probes = 0; probes < kMaxProbes; ++probes) {
        Slot & slot = slots_[at];
        if (slot.merge.id < 0) {
            slot = {key, merge};
            return true;
        }
        if (slot.pair == key) {
            return true;
        }
        at = (at + 1) & mask_;
    }
    return false;
}

MergeCandidate MergeTable::find(TokenId left, TokenId right) const {
    const uint64_t key = pair_key(left, right);
    size_t at = pair_hash(key) & mask_;
    while (slots_[at].merge.id >= 0) {
        if (slots_[at].pair == key) {
            return slots_[at].merge;
        }
        at = (at + 1) & mask_;
    }
    return {};
}

}  // namespace lumi
