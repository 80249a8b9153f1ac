// Checks an operation and its adjoint against a plain double-precision loop of the same function:
// values directly, gradients by central differences of the loop.
#pragma once

#include "device/device.h"
#include "graph/ops.h"

#include <functional>
#include <string>
#include <vector>

namespace lumi::test {

using Numbers = std::vector<double>;

// One input of the function under test. Gradients are checked for those that are watched.
struct Leaf {
    std::string name;
    std::vector<int64_t> ne;
    Numbers values;  // rounded to F32 before anything else
    bool watched = true;
    ggml_type type = GGML_TYPE_F32;  // I32 for indices
};

struct GradientCase {
    std::string name;
    std::vector<Leaf> leaves;
    std::function<ggml_tensor *(GraphContext &, const std::vector<ggml_tensor *> &)> build;
    // The same function of the same leaves, written independently; output in ggml's order.
    std::function<Numbers(const std::vector<Numbers> &)> reference;
    bool by_element = false;  // the worst element counts, not the L2 norm: for mixed magnitudes
    double step = 1e-4;       // of the central differences, times max(1, |x|)
    // With ggml every node must lie in the allowed set; panels run on the CPU only.
    Products products = Products::ggml;
};

// Deterministic numbers, roughly normal.
Numbers random_numbers(int64_t count, uint64_t seed, double sd = 1.0);
int64_t count_of(const std::vector<int64_t> & ne);

// Runs the case on the device, prints a line of errors, and fails the test when the value or a
// gradient is off by more than the tolerance (relative L2), or not finite.
void check_gradients(const GradientCase & c, const Device & device, double tolerance = 1e-3);

// Every operation in odd shapes (the cases_*.cpp files).
std::vector<GradientCase> linear_cases();
std::vector<GradientCase> panel_cases();  // LoRA maps with panels for frozen products, CPU only
std::vector<GradientCase> norm_and_rope_cases();
std::vector<GradientCase> attention_cases();
std::vector<GradientCase> activation_cases();
std::vector<GradientCase> basic_cases();

Device cpu_device();

}  // namespace lumi::test
