// How a fuzz target reports a broken promise.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace lumi {

inline void must_hold(bool held, const char * what) {
    if (!held) {
        fprintf(stderr, "does not hold: %s\n", what);
        abort();
    }
}

}  // namespace lumi
