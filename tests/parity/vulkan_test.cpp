// Every operation, and the logits of a tiny model, on a Vulkan device as on the CPU.
#include "parity/tiny_model.h"
#include "parity/vulkan_device.h"
#include "unit/graph/gradient_check.h"

#include <algorithm>
#include <cmath>

namespace lumi::test {
namespace {

TEST_F(Vulkan, EveryOperationMatchesCentralDifferences) {
    for (const std::vector<GradientCase> & cases :
         {linear_cases(), norm_and_rope_cases(), attention_cases(), activation_cases(),
          basic_cases()}) {
        for (const GradientCase & c : cases) {
            check_gradients(c, open());
        }
    }
}

// KL divergence of softmax(got) from softmax(wanted), the mean over rows.
double mean_divergence(const Floats & got, const Floats & wanted, size_t n_vocab) {
    const auto log_softmax = [&](const float * z) {
        const double largest = static_cast<double>(*std::max_element(z, z + n_vocab));
        double mass = 0;
        for (size_t v = 0; v < n_vocab; ++v) {
            mass += std::exp(static_cast<double>(z[v]) - largest);
        }
        std::vector<double> logs(n_vocab);
        for (size_t v = 0; v < n_vocab; ++v) {
            logs[v] = static_cast<double>(z[v]) - largest - std::log(mass);
        }
        return logs;
    };
    double total = 0;
    for (size_t start = 0; start < wanted.size(); start += n_vocab) {
        const std::vector<double> p = log_softmax(wanted.data() + start);
        const std::vector<double> q = log_softmax(got.data() + start);
        for (size_t v = 0; v < n_vocab; ++v) {
            total += std::exp(p[v]) * (p[v] - q[v]);
        }
    }
    return total * static_cast<double>(n_vocab) / static_cast<double>(wanted.size());
}

TEST_F(Vulkan, LogitsEqualTheCpus) {
    const TinyModel gpu = load_tiny("tiny-gemma4", name_);  // it has every path of gemma3
    const TinyModel cpu = load_tiny("tiny-gemma4");
    const std::vector<int32_t> tokens = load_reference("tiny-gemma4").tokens;
    const std::vector<int32_t> rows = all_rows(tokens.size());
    const Floats got = run_logits(gpu, tokens, rows, nullptr, true);
    const Floats wanted = run_logits(cpu, tokens, rows, nullptr, true);
    ASSERT_EQ(got.size(), wanted.size());
    const double divergence = mean_divergence(got, wanted, static_cast<size_t>(cpu.config.n_vocab));
    std::printf("KL to the CPU's logits %.1e\n", divergence);
    EXPECT_LT(std::abs(divergence), 1e-5);
}

}  // namespace
}  // namespace lumi::test
