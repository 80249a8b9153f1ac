// Any GGUF file as a training run's checkpoint.
#include "train/checkpoint.h"

#include "must_hold.h"

#include <cmath>

namespace lumi {

namespace {

void load(std::span<const std::byte> bytes) {
    auto file = GgufFile::from_bytes(bytes, "fuzz.gguf");
    if (!file) {
        return;
    }
    const auto checkpoint = read_checkpoint(std::move(file).value());
    if (!checkpoint) {
        must_hold(!checkpoint.error().message.empty(), "an error has a message");
        return;
    }
    const TrainState & state = checkpoint->state;
    const size_t n = checkpoint->parameters.size();
    must_hold(state.phase <= TrainPhase::end_epoch, "the phase lies between steps");
    must_hold(state.step >= 0 && state.summary.step_loss.size() == static_cast<size_t>(state.step),
              "each step has a loss");
    must_hold(checkpoint->first_moment.size() == n && checkpoint->second_moment.size() == n &&
                  checkpoint->good.size() == n,
              "flat tensors are equally long");
    for (size_t i = 0; i < n; ++i) {
        must_hold(std::isfinite(checkpoint->parameters[i]) &&
                      std::isfinite(checkpoint->second_moment[i]),
                  "numbers are finite");
    }
    for (const int32_t sample : state.order) {
        must_hold(sample >= 0 && static_cast<size_t>(sample) < state.order.size(),
                  "the order names samples");
    }
}

}  // namespace

}  // namespace lumi

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    lumi::load(std::as_bytes(std::span(data, size)));
    return 0;
}
