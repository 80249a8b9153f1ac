// A compute device: one opened ggml backend, what it can do, and how graphs run on it. ggml's
// backends are loaded from disk once per process (LUMI_GGML_PATH, else beside the linked ggml).
#pragma once

#include "base/ggml_ptr.h"

#include <lumi/error.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lumi {

inline constexpr int kMaxThreads = 512;  // ggml's own limit

struct DeviceInfo {
    std::string name;         // "cpu", "Vulkan0", "CUDA0": what --device takes
    std::string description;  // as the driver calls it
    bool is_cpu = true;
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;
};

// Loads every backend found; safe to call often and from any thread.
Status load_backends();
std::vector<DeviceInfo> list_devices();
std::string ggml_version_text();  // "0.25.1"
std::string cpu_variant_text();   // the CPU backend's file name, e.g. "libggml-cpu-icelake.so"

class Device {
  public:
    // name: "auto" (the first GPU with a real driver, else the CPU), "cpu" or a name of
    // list_devices(). n_threads 0 = one per physical core. Unknown names list what exists.
    static Result<Device> open(std::string_view name, int n_threads);

    const std::string & name() const { return name_; }
    bool is_cpu() const { return is_cpu_; }
    int n_threads() const { return n_threads_; }
    ggml_backend_t backend() const { return backend_.get(); }
    ggml_backend_buffer_type_t buffer_type() const;
    // CPU only: buffer types that keep weights repacked for matrix products (AMX, CPU_REPACK), best
    // first. Empty elsewhere.
    std::vector<ggml_backend_buffer_type_t> repack_buffer_types() const;
    // What can still be allocated: the system's available memory, or the GPU's free memory.
    uint64_t free_bytes() const;
    // The largest single buffer the device can make.
    uint64_t max_buffer_bytes() const;
    bool supports(const ggml_tensor * op) const;

    // A buffer over memory the caller keeps alive (the mapped file). CPU only.
    Result<GgmlBuffer> wrap_host_memory(const void * data, size_t size) const;
    // Allocates every tensor of ctx that has no buffer yet.
    Result<GgmlBuffer> allocate(ggml_context * ctx) const;

    // Runs the graph and waits. Preflight first: an operation the device lacks is an error naming
    // it.
    Status compute(ggml_cgraph * graph) const;
    // Names the first node that the device cannot run; ok when there is none.
    Status preflight(ggml_cgraph * graph) const;

  private:
    Device() = default;
    void start_threads(ggml_backend_dev_t cpu);

    // The CPU's threads stay between graphs; declared first because the backend uses them.
    std::unique_ptr<ggml_threadpool, void (*)(ggml_threadpool_t)> threads_{nullptr, nullptr};
    GgmlBackend backend_;
    std::string name_;
    bool is_cpu_ = true;
    int n_threads_ = 1;
};

// The same for any device: what it is called and what it can run.
Status preflight(ggml_cgraph * graph, const std::string & device,
                 const std::function<bool(const ggml_tensor * op)> & supports);

}  // namespace lumi
