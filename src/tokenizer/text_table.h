// A hash table from text to token id, built once at load: the texts live elsewhere and outlive it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace lumi {

class TextTable {
  public:
    // Room for count texts.
    explicit TextTable(size_t count);

    enum class Insert : uint8_t {
        added,
        duplicate,  // the first id stays
        clustered,  // so many texts share a slot that someone chose them to
    };
    Insert insert(std::string_view text, int32_t id);
    int32_t find(std::string_view text) const;  // -1 when absent

  private:
    struct Slot {
        const char * data;
        uint32_t size;
        int32_t id;
    };
    std::vector<Slot> slots_;
    size_t mask_;
};

}  // namespace lumi
