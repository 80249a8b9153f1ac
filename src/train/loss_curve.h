// The losses of a run as a picture that needs no program but a browser.
#pragma once

#include "train/trainer.h"

#include <string>

namespace lumi {

// SVG: each step's loss, the smoothed one, and the validation loss, over steps. Colours are chosen
// to be read on light and on dark. An empty run gives axes and no lines.
std::string loss_curve_svg(const TrainSummary & summary);

}  // namespace lumi
