// Opens a device by name and runs graphs on it.

#include "device/device.h"

#include "base/log.h"
#include "base/utf8.h"
#include "device/cpu_threads.h"
#include "device/memory_plan.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace lumi {

namespace {

template <typename Function> Function cpu_function(ggml_backend_dev_t device, const char * name) {
    return reinterpret_cast<Function>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

bool same_name(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
        return std::tolower(x) == std::tolower(y);
    });
}

// Vulkan drivers that run on the CPU call themselves GPUs; "auto" must not pick one.
bool is_software_gpu(std::string_view description) {
    std::string lower(description);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower.find("llvmpipe") != std::string::npos ||
           lower.find("lavapipe") != std::string::npos ||
           lower.find("swiftshader") != std::string::npos;
}

ggml_backend_dev_t choose_automatically() {
    for (const auto type : {GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU}) {
        for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            ggml_backend_dev_t device = ggml_backend_dev_get(i);
            if (ggml_backend_dev_type(device) == type &&
                !is_software_gpu(ggml_backend_dev_description(device))) {
                return device;
            }
        }
    }
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

Result<ggml_backend_dev_t> find_device(std::string_view name) {
    LUMI_TRY(load_backends());
    if (same_name(name, "auto")) {
        return choose_automatically();
    }
    if (same_name(name, "cpu")) {
        return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    }
    std::string known = "auto";
    for (const DeviceInfo & info : list_devices()) {
        if (!info.is_cpu && same_name(name, info.name)) {
            return ggml_backend_dev_by_name(info.name.c_str());
        }
        known += ", " + info.name;
    }
    return Error{ErrorKind::invalid_argument,
                 "there is no device " + quoted(name) + "; on this machine there are: " + known};
}

}  // namespace

Result<Device> Device::open(std::string_view name, int n_threads) {
    if (n_threads < 0 || n_threads > kMaxThreads) {
        return Error{ErrorKind::invalid_argument,
                     "the number of threads is " + std::to_string(n_threads) +
                         ", allowed are 0 (one a core) to " + std::to_string(kMaxThreads)};
    }
    ggml_backend_dev_t chosen = LUMI_TRY(find_device(name));
    Device device;
    device.is_cpu_ = ggml_backend_dev_type(chosen) == GGML_BACKEND_DEVICE_TYPE_CPU;
    device.name_ = device.is_cpu_ ? "cpu" : ggml_backend_dev_name(chosen);
    device.n_threads_ = n_threads > 0 ? n_threads : usable_physical_cores();
    device.backend_.reset(ggml_backend_dev_init(chosen, nullptr));
    if (!device.backend_) {
        return Error{ErrorKind::unsupported, "device " + device.name_ + " (" +
                                                 ggml_backend_dev_description(chosen) +
                                                 ") could not be started"};
    }
    if (device.is_cpu_) {
        device.start_threads(chosen);
    }
    return device;
}

// Without a pool of its own ggml starts and joins its threads for every graph, which a small model
// or a training slice feels.
void Device::start_threads(ggml_backend_dev_t cpu) {
    if (const auto set_n_threads =
            cpu_function<ggml_backend_set_n_threads_t>(cpu, "ggml_backend_set_n_threads")) {
        set_n_threads(backend_.get(), n_threads_);
    }
    const auto new_pool =
        cpu_function<ggml_threadpool_t (*)(ggml_threadpool_params *)>(cpu, "ggml_threadpool_new");
    const auto free_pool = cpu_function<void (*)(ggml_threadpool_t)>(cpu, "ggml_threadpool_free");
    const auto set_pool = cpu_function<void (*)(ggml_backend_t, ggml_threadpool_t)>(
        cpu, "ggml_backend_cpu_set_threadpool");
    if (new_pool == nullptr || free_pool == nullptr || set_pool == nullptr || n_threads_ < 2) {
        return;
    }
    ggml_threadpool_params params = ggml_threadpool_params_default(n_threads_);
    threads_ = {new_pool(&params), free_pool};
    if (threads_) {
        set_pool(backend_.get(), threads_.get());
    }
}

ggml_backend_buffer_type_t Device::buffer_type() const {
    return ggml_backend_get_default_buffer_type(backend_.get());
}

std::vector<ggml_backend_buffer_type_t> Device::repack_buffer_types() const {
    std::vector<ggml_backend_buffer_type_t> types;
    if (!is_cpu_) {
        return types;
    }
    ggml_backend_dev_t cpu = ggml_backend_get_device(backend_.get());
    const auto get_extra =
        cpu_function<ggml_backend_dev_get_extra_bufts_t>(cpu, "ggml_backend_dev_get_extra_bufts");
    if (get_extra != nullptr) {
        // ggml lists AMX before its portable repacking.
        for (ggml_backend_buffer_type_t * type = get_extra(cpu);
             type != nullptr && *type != nullptr; ++type) {
            types.push_back(*type);
        }
    }
    return types;
}

uint64_t Device::free_bytes() const {
    if (is_cpu_) {
        return available_memory_bytes();
    }
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    ggml_backend_dev_memory(ggml_backend_get_device(backend_.get()), &free_bytes, &total_bytes);
    return free_bytes;
}

uint64_t Device::max_buffer_bytes() const {
    return ggml_backend_buft_get_max_size(buffer_type());
}

bool Device::supports(const ggml_tensor * op) const {
    return ggml_backend_supports_op(backend_.get(), op);
}

Result<GgmlBuffer> Device::wrap_host_memory(const void * data, size_t size) const {
    if (!is_cpu_) {
        return Error{ErrorKind::internal, "host memory can be used in place on the CPU only"};
    }
    // ggml wants an aligned start and writes nothing to a tensor that is only read.
    constexpr uintptr_t kAlignment = 64;
    const uintptr_t start = reinterpret_cast<uintptr_t>(data);
    const uintptr_t aligned = start / kAlignment * kAlignment;
    GgmlBuffer buffer(ggml_backend_cpu_buffer_from_ptr(reinterpret_cast<void *>(aligned),
                                                       size + (start - aligned)));
    if (!buffer) {
        return Error{ErrorKind::out_of_memory, "no memory for a buffer's description"};
    }
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return buffer;
}

Result<GgmlBuffer> Device::allocate(ggml_context * ctx) const {
    uint64_t bytes = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(ctx); t != nullptr;
         t = ggml_get_next_tensor(ctx, t)) {
        if (t->data == nullptr && t->view_src == nullptr) {
            bytes += ggml_backend_buft_get_alloc_size(buffer_type(), t);
        }
    }
    if (bytes == 0) {
        return GgmlBuffer();
    }
    GgmlBuffer buffer(ggml_backend_alloc_ctx_tensors(ctx, backend_.get()));
    if (!buffer) {
        return Error{ErrorKind::out_of_memory,
                     "device " + name_ + " could not allocate " + std::to_string(bytes) + " bytes"};
    }
    return buffer;
}

namespace {

// A node that GPU backends would leave out without a word: one that was never given memory.
const ggml_tensor * node_without_memory(ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        if (node->buffer == nullptr && node->op != GGML_OP_NONE && ggml_nelements(node) > 0) {
            return node;
        }
    }
    return nullptr;
}

}  // namespace

Status Device::compute(ggml_cgraph * graph) const {
    const ggml_tensor * lost = is_cpu_ ? nullptr : node_without_memory(graph);
    if (lost != nullptr) {
        return Error{ErrorKind::internal, std::string("device ") + name_ + ": " +
                                              ggml_op_desc(lost) + " '" + lost->name +
                                              "' has no memory"};
    }
    switch (ggml_backend_graph_compute(backend_.get(), graph)) {
    case GGML_STATUS_SUCCESS:
        return {};
    case GGML_STATUS_ALLOC_FAILED:
        return Error{ErrorKind::out_of_memory, "device " + name_ + " ran out of memory"};
    case GGML_STATUS_ABORTED:
        return Error{ErrorKind::cancelled, "the computation was stopped"};
    default:
        return Error{ErrorKind::internal, "device " + name_ + " failed to compute a graph"};
    }
}

Status Device::preflight(ggml_cgraph * graph) const {
    return lumi::preflight(graph, name_, [this](const ggml_tensor * op) { return supports(op); });
}

Status preflight(ggml_cgraph * graph, const std::string & device,
                 const std::function<bool(const ggml_tensor * op)> & supports) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const ggml_tensor * node = ggml_graph_node(graph, i);
        if (supports(node)) {
            continue;
        }
        std::string text = "device " + device + " cannot run " + ggml_op_desc(node) + " of";
        for (int s = 0; s < GGML_MAX_SRC && node->src[s] != nullptr; ++s) {
            const ggml_tensor * source = node->src[s];
            text += std::string(s == 0 ? " " : " and ") + ggml_type_name(source->type) + "[" +
                    std::to_string(source->ne[0]) + ", " + std::to_string(source->ne[1]) + ", " +
                    std::to_string(source->ne[2]) + ", " + std::to_string(source->ne[3]) + "]";
        }
        return Error{ErrorKind::unsupported, text + " (" + node->name + ")"};
    }
    return {};
}

}  // namespace lumi
