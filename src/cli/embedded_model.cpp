// Places the file LUMI_EMBEDDED_MODEL (set by the build) into the program's read-only data.
#include "cli/embedded_model.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        ".global lumi_embedded_model_begin\n"
        "lumi_embedded_model_begin:\n"
        ".incbin \"" LUMI_EMBEDDED_MODEL "\"\n"
        ".global lumi_embedded_model_end\n"
        "lumi_embedded_model_end:\n"
        ".byte 0\n"
        ".text\n");

extern "C" const std::byte lumi_embedded_model_begin[];
extern "C" const std::byte lumi_embedded_model_end[];

namespace lumi {

std::span<const std::byte> embedded_model() {
    return {lumi_embedded_model_begin,
            static_cast<size_t>(lumi_embedded_model_end - lumi_embedded_model_begin)};
}

}  // namespace lumi
