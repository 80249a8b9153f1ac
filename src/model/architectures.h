// The architectures lumi knows: each reads its own keys into the Config that read_config started
// (name, layer count, widths, context, heads and FFN widths are there already).
#pragma once

#include "model/config.h"
#include "model/hyper_parameters.h"

namespace lumi {

Status read_gemma4(const HyperParameters & keys, Config & config);
Status read_gemma3(const HyperParameters & keys, Config & config);
Status read_qwen3(const HyperParameters & keys, Config & config);

}  // namespace lumi
