// How many threads the CPU device gets by default.
#pragma once

namespace lumi {

// Physical cores this process may use: its affinity mask, one thread a core, capped by the
// container's CPU quota. At least 1.
int usable_physical_cores();

}  // namespace lumi
