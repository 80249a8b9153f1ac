// Writes a Config as the metadata keys that read_config turns into the same Config.
#pragma once

#include "gguf/gguf_writer.h"
#include "model/config.h"

namespace lumi {

void write_config_metadata(const Config & config, GgufWriter & writer);

}  // namespace lumi
