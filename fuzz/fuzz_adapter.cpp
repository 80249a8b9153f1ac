// Any GGUF file as an adapter of a four-layer model of Gemma 4's kind.
#include "adapter/adapter.h"

#include "must_hold.h"
#include "support/small_config.h"

namespace lumi {

namespace {

void load(std::span<const std::byte> bytes) {
    static const Config kConfig = small_config();
    const auto file = GgufFile::from_bytes(bytes, "fuzz.gguf");
    if (!file) {
        return;
    }
    const auto adapter = load_adapter(*file, kConfig, "base");
    if (!adapter) {
        must_hold(!adapter.error().message.empty(), "an error has a message");
        return;
    }
    must_hold(adapter->check_finite().ok(), "a loaded adapter is finite");
    for (const LoraMatrixPair & pair : adapter->pairs) {
        const ModuleShape shape = module_shape(kConfig, pair.layer, pair.module);
        const auto rank = static_cast<size_t>(pair.rank);
        must_hold(pair.n_in == shape.n_in && pair.n_out == shape.n_out, "widths are the model's");
        must_hold(pair.rank >= 1 && pair.a.size() == rank * static_cast<size_t>(pair.n_in) &&
                      pair.b.size() == rank * static_cast<size_t>(pair.n_out),
                  "data is as large as its shape");
        must_hold(module_is_live(kConfig, pair.layer, pair.module), "only live modules");
    }
}

}  // namespace

}  // namespace lumi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    lumi::load(std::as_bytes(std::span(data, size)));
    return 0;
}
