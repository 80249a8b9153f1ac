// The greedy merge that BPE and SentencePiece share: symbols in a linked list, candidate pairs in a
// heap, stale candidates dropped when they surface. O(n log n) in the number of symbols.
#pragma once

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <string_view>
#include <vector>

namespace lumi {

struct Symbol {
    uint32_t offset = 0;
    uint32_t size = 0;  // 0: merged into its left neighbour
    int32_t previous = -1;
    int32_t next = -1;
    TokenId id = -1;  // -1: not in the vocabulary
};

// What a rule says of two neighbours: the lower the priority number, the earlier they merge.
struct MergeCandidate {
    uint32_t priority = 0;
    TokenId id = -1;  // -1: they never merge
};

// Longer runs are cut there, so that 32-bit offsets hold; no real text has a word of a GiB.
inline constexpr size_t kMaxRunBytes = size_t{1} << 30;

// Bytes of the first character; a lead byte without its continuations stands alone, so that broken
// text falls back to bytes one by one.
inline size_t character_size(std::string_view text) {
    const size_t size = utf8_lead_length(static_cast<unsigned char>(text[0]));
    if (size > text.size()) {
        return 1;
    }
    for (size_t i = 1; i < size; ++i) {
        if ((static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U) {
            return 1;
        }
    }
    return size;
}

// One symbol a character; lookup(text) gives the ids.
template <typename Lookup>
std::vector<Symbol> split_characters(std::string_view text, const Lookup & lookup) {
    std::vector<Symbol> symbols;
    symbols.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const size_t size = character_size(text.substr(at));
        const auto index = static_cast<int32_t>(symbols.size());
        symbols.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(size), index - 1,
                           index + 1, lookup(text.substr(at, size))});
        at += size;
    }
    if (!symbols.empty()) {
        symbols.back().next = -1;
    }
    return symbols;
}

// Merges in place; afterwards the list from symbols[0] holds what is left. rule(left, right) gives
// a MergeCandidate. Among equal priorities the leftmost pair goes first.
template <typename Rule> void merge_symbols(std::vector<Symbol> & symbols, const Rule & rule) {
    struct Pair {
        uint64_t order;  // priority, then place
        uint32_t right;
        uint32_t size;  // of both together: differs once either has grown
        TokenId id;
        bool operator>(const Pair & other) const { return order > other.order; }
    };
    std::vector<Pair> first;
    first.reserve(symbols.size());
    const auto candidate = [&](int32_t left, int32_t right, auto && add) {
        if (left < 0 || right < 0) {
            return;
        }
        const Symbol & l = symbols[static_cast<size_t>(left)];
        const Symbol & r = symbols[static_cast<size_t>(right)];
        const MergeCandidate merge = rule(l, r);
        if (merge.id >= 0) {
            add(Pair{(uint64_t{merge.priority} << 32) | static_cast<uint32_t>(left),
                     static_cast<uint32_t>(right), l.size + r.size, merge.id});
        }
    };
    for (size_t i = 1; i < symbols.size(); ++i) {
        candidate(static_cast<int32_t>(i - 1), static_cast<int32_t>(i),
                  [&](const Pair & pair) { first.push_back(pair); });
    }
    std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue(std::greater<>{},
                                                                       std::move(first));
    const auto push = [&](const Pair & pair) { queue.push(pair); };
    while (!queue.empty()) {
        const Pair pair = queue.top();
        queue.pop();
        const auto left_index = static_cast<uint32_t>(pair.order);
        Symbol & left = symbols[left_index];
        Symbol & right = symbols[pair.right];
        if (left.size == 0 || right.size == 0 || left.size + right.size != pair.size) {
            continue;
        }
        left.size = pair.size;
        left.id = pair.id;
        left.next = right.next;
        right.size = 0;
        if (right.next >= 0) {
            symbols[static_cast<size_t>(right.next)].previous = static_cast<int32_t>(left_index);
        }
        candidate(left.previous, static_cast<int32_t>(left_index), push);
        candidate(static_cast<int32_t>(left_index), left.next, push);
    }
}

}  // namespace lumi
