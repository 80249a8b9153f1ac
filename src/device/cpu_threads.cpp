// Counts cores from Linux's topology files; elsewhere the standard library's number.

#include "device/cpu_threads.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include <sched.h>

namespace lumi {

namespace {

int cores_of_affinity_mask() {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof(mask), &mask) != 0) {
        return 0;
    }
    // Hyperthreads of one core share one line of siblings.
    std::set<std::string> cores;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &mask)) {
            std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                               "/topology/thread_siblings_list");
            std::string siblings;
            if (!std::getline(file, siblings)) {
                siblings = std::to_string(cpu);
            }
            cores.insert(siblings);
        }
    }
    return static_cast<int>(cores.size());
}

// A container limited to "2 CPUs" still sees all cores; more threads than that only wait.
int cores_of_quota() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) {
        return 0;
    }
    const double cores = std::strtod(quota.c_str(), nullptr) / period;
    return cores > 0 ? std::max(1, static_cast<int>(cores + 0.5)) : 0;
}

}  // namespace

int usable_physical_cores() {
    int n = cores_of_affinity_mask();
    if (n == 0) {
        n = static_cast<int>(std::thread::hardware_concurrency());
    }
    if (const int quota = cores_of_quota(); quota > 0) {
        n = std::min(n, quota);
    }
    return std::max(1, n);
}

}  // namespace lumi
