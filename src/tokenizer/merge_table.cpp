// Open addressing with linear probing at a load of at most one half.
#include "tokenizer/merge_table.h"

#include "base/utf8.h"

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

Result<MergeTable> MergeTable::load(const GgufFile & file, const Tokenizer::Vocab & vocab) {
    constexpr const char * kKey = "tokenizer.ggml.merges";
    const std::vector<std::string_view> merges = LUMI_TRY(file.get_strings(kKey));
    MergeTable table(merges.size());
    std::string joined;
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const std::string_view merge = merges[rank];
        const auto bad_merge = [&](const char * why) {
            return Error{ErrorKind::invalid_file, std::string(kKey) + ": element " +
                                                      std::to_string(rank) + ", " +
                                                      quoted(merge, 64) + ", " + why};
        };
        const size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == merge.size()) {
            return bad_merge("is not two texts with a space between");
        }
        joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        const TokenId left = vocab.find(merge.substr(0, space));
        const TokenId right = vocab.find(merge.substr(space + 1));
        const TokenId whole = vocab.find(joined);
        if (left < 0 || right < 0 || whole < 0) {
            return bad_merge("joins or makes a text that is not in the vocabulary");
        }
        // Ordinary text never merges into a control token, whatever the file wants.
        if (vocab.is_ordinary(whole) &&
            !table.insert(left, right, {static_cast<uint32_t>(rank), whole})) {
            return bad_merge("was chosen to collide with others");
        }
    }
    return table;
}

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
