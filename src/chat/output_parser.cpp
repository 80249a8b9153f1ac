// What the parsers share, and the one for families whose output has no structure.
#include "chat/output_parser.h"

#include <algorithm>

namespace lumi {

namespace {

class PlainParser final : public OutputParser {
  public:
    OutputDelta push(std::string_view text) override {
        OutputDelta delta;
        delta.content = text;
        return delta;
    }
    OutputDelta finish() override { return {}; }
};

}  // namespace

std::unique_ptr<OutputParser> make_plain_parser() {
    return std::make_unique<PlainParser>();
}

size_t pending_bytes(std::string_view text, std::string_view marker) {
    for (size_t n = std::min(marker.size() - 1, text.size()); n > 0; --n) {
        if (text.ends_with(marker.substr(0, n))) {
            return n;
        }
    }
    return 0;
}

}  // namespace lumi
