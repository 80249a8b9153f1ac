// Asks the CPU and Linux for AMX. Compiled for any x86-64, unlike the kernels themselves.
#include "device/amx_kernels.h"

#include <cpuid.h>
#include <immintrin.h>

#include <sys/syscall.h>
#include <unistd.h>

namespace lumi {
namespace {

bool bit(unsigned value, int index) {
    return (value >> index & 1U) != 0;
}

// AVX-512 F, DQ, BW, VL, BF16 and AMX tiles with BF16, in the CPU and switched on by the system.
[[gnu::target("xsave")]] bool cpu_has_amx() {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || !bit(c, 27)) {  // OSXSAVE
        return false;
    }
    constexpr unsigned long long kStates = 0x600E6;  // SSE, AVX, three of AVX-512, two of tiles
    if ((_xgetbv(0) & kStates) != kStates || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
        !bit(b, 16) || !bit(b, 17) || !bit(b, 30) || !bit(b, 31) || !bit(d, 22) || !bit(d, 24)) {
        return false;
    }
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && bit(a, 5);
}

bool system_grants_tiles() {
    constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool amx_available() {
    static const bool available = cpu_has_amx() && system_grants_tiles();
    return available;
}

}  // namespace lumi
