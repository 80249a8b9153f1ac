// A graph computed in consecutive pieces of about equal time, so that the thread that owns the
// device can do something else in between. The numbers are those of one run, byte for byte.
#pragma once

#include "device/device.h"

#include <limits>

namespace lumi {

class SlicedGraph {
  public:
    SlicedGraph(const Device & device, double slice_seconds)
        : device_(&device), slice_seconds_(slice_seconds) {}

    // graph is allocated, its inputs are set, and it lives until the last slice.
    void start(ggml_cgraph * graph);
    // Computes the next slice; true when the graph is done.
    Result<bool> advance();
    int slices_run() const { return slices_run_; }

  private:
    const Device * device_;
    double slice_seconds_;
    double seconds_per_unit_ = 1e-11;  // learnt; a unit is about one floating point operation
    ggml_cgraph * graph_ = nullptr;
    int next_ = 0;
    int slices_run_ = 0;
    GgmlContext context_;  // of slice_, which is refilled for every slice
    ggml_cgraph * slice_ = nullptr;
    int capacity_ = 0;
};

}  // namespace lumi
