// ggml repacks a tensor when its data is set, on the calling thread; several threads do several
// tensors at once.

#include "model/repack.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include <sys/mman.h>

namespace lumi {

namespace {

GgmlContext make_context(size_t n_tensors) {
    return GgmlContext(ggml_init({ggml_tensor_overhead() * (n_tensors + 1), nullptr, true}));
}

ggml_tensor * new_tensor(ggml_context * ctx, const TensorInfo & info) {
    ggml_tensor * tensor = ggml_new_tensor_2d(ctx, info.type, info.ne[0], info.ne[1]);
    ggml_set_name(tensor, info.name.c_str());
    return tensor;
}

// Asks the device whether it multiplies such a weight from a buffer of this type. The answer
// depends on type and shape, not on the data.
bool accepts(const Device & device, ggml_backend_buffer_type_t type, const TensorInfo & info) {
    const GgmlContext ctx = make_context(4);
    ggml_tensor * weight = new_tensor(ctx.get(), info);
    const GgmlBuffer empty(ggml_backend_buft_alloc_buffer(type, 0));
    weight->buffer = empty.get();
    ggml_tensor * x = ggml_new_tensor_2d(ctx.get(), GGML_TYPE_F32, info.ne[0], 512);
    return device.supports(ggml_mul_mat(ctx.get(), weight, x));
}

// Huge pages: fewer faults while filling, fewer address translations while decoding.
void prefer_huge_pages(ggml_backend_buffer_t buffer) {
    constexpr uintptr_t kHugePage = 2U << 20;
    const auto base = reinterpret_cast<uintptr_t>(ggml_backend_buffer_get_base(buffer));
    const uintptr_t start = (base + kHugePage - 1) / kHugePage * kHugePage;
    const uintptr_t end = base + ggml_backend_buffer_get_size(buffer);
    if (end > start) {
        (void)madvise(reinterpret_cast<void *>(start), end - start, MADV_HUGEPAGE);
    }
}

Status allocate(const RepackPlan & plan, Twin & twin) {
    std::vector<ggml_backend_buffer_type_t> types;
    for (const RepackPlan::Item & item : plan.items) {
        if (std::find(types.begin(), types.end(), item.type) == types.end()) {
            types.push_back(item.type);
        }
    }
    twin.tensors.resize(plan.items.size());
    for (ggml_backend_buffer_type_t type : types) {
        GgmlContext ctx = make_context(plan.items.size());
        for (size_t i = 0; i < plan.items.size(); ++i) {
            if (plan.items[i].type == type) {
                twin.tensors[i] = new_tensor(ctx.get(), *plan.items[i].tensor->info);
            }
        }
        GgmlBuffer buffer(ggml_backend_alloc_ctx_tensors_from_buft(ctx.get(), type));
        if (!buffer) {
            return Error{ErrorKind::out_of_memory,
                         std::string("no memory for weights repacked as ") +
                             ggml_backend_buft_name(type)};
        }
        ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
        prefer_huge_pages(buffer.get());
        twin.contexts.push_back(std::move(ctx));
        twin.buffers.push_back(std::move(buffer));
    }
    return {};
}

}  // namespace

RepackPlan plan_repack(const Device & device, std::span<const BoundTensor> tensors) {
    RepackPlan plan;
    const std::vector<ggml_backend_buffer_type_t> types = device.repack_buffer_types();
    for (const BoundTensor & tensor : tensors) {
        if (!tensor.role.repackable || tensor.role.slot == nullptr) {
            continue;
        }
        for (ggml_backend_buffer_type_t type : types) {
            if (accepts(device, type, *tensor.info)) {
                const GgmlContext ctx = make_context(1);
                plan.items.push_back({&tensor, type});
                plan.bytes +=
                    ggml_backend_buft_get_alloc_size(type, new_tensor(ctx.get(), *tensor.info));
                break;
            }
        }
    }
    return plan;
}

Result<Twin> make_twin(const GgufFile & file, const RepackPlan & plan, int n_threads,
                       const std::function<void(double fraction)> & progress) {
    Twin twin;
    LUMI_TRY(allocate(plan, twin));

    // The largest first, so that no thread starts the embedding table when the others are done.
    std::vector<size_t> order(plan.items.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto bytes_of = [&](size_t i) { return plan.items[i].tensor->info->n_bytes; };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return bytes_of(a) > bytes_of(b); });
    const uint64_t total =
        std::accumulate(order.begin(), order.end(), uint64_t{1},
                        [&](uint64_t sum, size_t i) { return sum + bytes_of(i); });

    std::atomic<size_t> next = 0;
    std::atomic<uint64_t> done_bytes = 0;
    const auto work = [&](bool report) {
        for (size_t at = next++; at < order.size(); at = next++) {
            const size_t i = order[at];
            const std::span<const std::byte> data = file.tensor_data(*plan.items[i].tensor->info);
            ggml_backend_tensor_set(twin.tensors[i], data.data(), 0, data.size());
            done_bytes += data.size();
            if (report && progress) {
                progress(static_cast<double>(done_bytes) / static_cast<double>(total));
            }
        }
    };
    std::vector<std::jthread> helpers;
    for (int t = 1; t < n_threads; ++t) {
        helpers.emplace_back(work, false);
    }
    work(true);
    helpers.clear();  // joins
    return twin;
}

}  // namespace lumi
