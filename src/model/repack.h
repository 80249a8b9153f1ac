// The repacked twin: copies of weights in the layout that ggml's matrix kernels like best, for
// inference only.
#pragma once

#include "device/device.h"
#include "model/tensor_check.h"

#include <functional>
#include <vector>

namespace lumi {

// Which weights get a twin, where, and what that costs. Made without allocating.
struct RepackPlan {
    struct Item {
        const BoundTensor * tensor = nullptr;
        ggml_backend_buffer_type_t type = nullptr;
    };
    std::vector<Item> items;
    uint64_t bytes = 0;
};
RepackPlan plan_repack(const Device & device, std::span<const BoundTensor> tensors);

// The twin itself; slots[i] belongs to plan.items[i].
struct Twin {
    std::vector<GgmlContext> contexts;
    std::vector<GgmlBuffer> buffers;
    std::vector<ggml_tensor *> tensors;
};
// Allocates and fills, n_threads tensors at a time. progress runs on the calling thread only.
Result<Twin> make_twin(const GgufFile & file, const RepackPlan & plan, int n_threads,
                       const std::function<void(double fraction)> & progress);

}  // namespace lumi
