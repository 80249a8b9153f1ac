// Random weights written straight into a type's storage: no F32 tensor, no quantiser.
#pragma once

#include "base/rng.h"

#include <ggml.h>

#include <lumi/error.h>

#include <span>

namespace lumi {

// True for the types fill_random_rows writes.
bool can_fill_random(ggml_type type);

// Fills whole rows with values of mean 0 and standard deviation sd. Quantised types get random
// quants under scales drawn around the one that gives sd; float types get near-normal values.
// The same generator state gives the same bytes however the rows are cut into calls.
void fill_random_rows(ggml_type type, float sd, Rng & rng, std::span<std::byte> rows);

}  // namespace lumi
