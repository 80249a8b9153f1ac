// Finds and loads ggml's dynamic backends once, and describes the devices they bring.

#include "base/log.h"
#include "device/device.h"

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <dlfcn.h>

namespace lumi {

namespace {

namespace fs = std::filesystem;

// ggml writes lines in pieces; a piece without a line end waits for its continuation.
void forward_ggml_log(ggml_log_level level, const char * text, void * /*user*/) {
    thread_local std::string line;
    thread_local LogLevel line_level = LogLevel::debug;
    if (level != GGML_LOG_LEVEL_CONT) {
        line_level = level == GGML_LOG_LEVEL_ERROR  ? LogLevel::error
                     : level == GGML_LOG_LEVEL_WARN ? LogLevel::warning
                                                    : LogLevel::debug;
    }
    line += text;
    if (line.ends_with('\n')) {
        line.pop_back();
        if (!line.empty()) {
            log(line_level, "ggml: " + line);
        }
        line.clear();
    }
}

bool holds_cpu_backend(const fs::path & folder) {
    std::error_code error;
    for (const auto & entry : fs::directory_iterator(folder, error)) {
        const std::string file = entry.path().filename().string();
        if (file.starts_with("libggml-cpu") || file.starts_with("ggml-cpu")) {
            return true;
        }
    }
    return false;
}

// The folders to look in, best first.
std::vector<fs::path> backend_folders() {
    std::vector<fs::path> folders;
    if (const char * path = std::getenv("LUMI_GGML_PATH"); path != nullptr && *path != '\0') {
        folders.emplace_back(path);
        return folders;  // asked for by name: nothing else will do
    }
    // Beside the ggml that this process linked: true of an installed lumi, of a build, and of a
    // program that embeds the library.
    Dl_info info{};
    void * symbol = dlsym(RTLD_DEFAULT, "ggml_version");
    if (symbol != nullptr && dladdr(symbol, &info) != 0 && info.dli_fname != nullptr) {
        folders.push_back(fs::path(info.dli_fname).parent_path());
    }
    return folders;
}

Status load_backends_now() {
    ggml_log_set(forward_ggml_log, nullptr);
    std::string tried;
    for (const fs::path & folder : backend_folders()) {
        if (holds_cpu_backend(folder)) {
            ggml_backend_load_all_from_path(folder.c_str());
            break;
        }
        tried += (tried.empty() ? "" : ", ") + folder.string();
    }
    const bool named = std::getenv("LUMI_GGML_PATH") != nullptr;
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr && !named) {
        ggml_backend_load_all();  // where an installed ggml keeps them
    }
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
        return Error{ErrorKind::unsupported,
                     "ggml's CPU backend (libggml-cpu*.so) was not found or does not run on this "
                     "processor; looked in: " +
                         tried + "; set LUMI_GGML_PATH to the folder that holds it"};
    }
    return {};
}

}  // namespace

Status load_backends() {
    static std::once_flag once;
    static Status result;
    std::call_once(once, [] { result = load_backends_now(); });
    return result;
}

std::vector<DeviceInfo> list_devices() {
    std::vector<DeviceInfo> devices;
    if (!load_backends().ok()) {
        return devices;
    }
    for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        const auto type = ggml_backend_dev_type(device);
        const bool is_cpu = type == GGML_BACKEND_DEVICE_TYPE_CPU;
        if (!is_cpu && type != GGML_BACKEND_DEVICE_TYPE_GPU &&
            type != GGML_BACKEND_DEVICE_TYPE_IGPU) {
            continue;
        }
        DeviceInfo info;
        info.name = is_cpu ? "cpu" : ggml_backend_dev_name(device);
        info.description = ggml_backend_dev_description(device);
        info.is_cpu = is_cpu;
        size_t free_bytes = 0;
        size_t total_bytes = 0;
        ggml_backend_dev_memory(device, &free_bytes, &total_bytes);
        info.free_bytes = free_bytes;
        info.total_bytes = total_bytes;
        devices.push_back(std::move(info));
    }
    return devices;
}

std::string ggml_version_text() {
    return ggml_version();
}

std::string cpu_variant_text() {
    if (!load_backends().ok()) {
        return "none";
    }
    // ggml does not tell which variant it chose; the file that holds one of its functions does.
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    const void * function = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu),
                                                              "ggml_backend_set_n_threads");
    Dl_info info{};
    if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) {
        return "unknown";
    }
    return fs::path(info.dli_fname).filename().string();
}

}  // namespace lumi
