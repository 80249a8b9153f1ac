// The same operations and tiny models on a Vulkan device (a software one will do), without half
// precision: gradients as on the CPU, every node on the device. One backend runs the whole graph,
// so a node that only the CPU has is a preflight error, not a silent detour.
#include "parity/tiny_model.h"
#include "unit/graph/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lumi::test {
namespace {

// Before any backend is loaded: ggml ignores software devices unless they are named, and rounds
// products to F16 where the device has it.
const bool kConfigured = [] {
    setenv("GGML_VK_VISIBLE_DEVICES", "0", 0);
    setenv("GGML_VK_DISABLE_F16", "1", 1);
    return true;
}();

class Vulkan : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(kConfigured);
        ASSERT_TRUE(load_backends().ok());
        for (const DeviceInfo & info : list_devices()) {
            if (info.name.rfind("Vulkan", 0) == 0) {
                name_ = info.name;
                std::printf("device %s: %s\n", name_.c_str(), info.description.c_str());
                return;
            }
        }
        GTEST_SKIP() << "NO VULKAN DEVICE: install mesa-vulkan-drivers to run this test";
    }
    // A fresh one for every graph: Debian 12's software Vulkan (Mesa 22.3) corrupts its heap when a
    // backend runs many graphs.
    Device open() const {
        Result<Device> device = Device::open(name_, 1);
        EXPECT_TRUE(device.ok()) << device.error().message;
        return std::move(device).value();
    }
    std::string name_;
};

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

TEST_F(Vulkan, LogitsOfTinyModelsEqualTheCpus) {
    for (const char * name : {"tiny-gemma4", "tiny-gemma3"}) {
        const TinyModel gpu = load_tiny(name, name_);
        const TinyModel cpu = load_tiny(name);
        const std::vector<int32_t> tokens = load_reference(name).tokens;
        const std::vector<int32_t> rows = all_rows(tokens.size());
        const Floats got = run_logits(gpu, tokens, rows, nullptr, true);
        const Floats wanted = run_logits(cpu, tokens, rows, nullptr, true);
        ASSERT_EQ(got.size(), wanted.size());
        const double divergence =
            mean_divergence(got, wanted, static_cast<size_t>(cpu.config.n_vocab));
        std::printf("%s: KL to the CPU's logits %.1e\n", name, divergence);
        EXPECT_LT(std::abs(divergence), 1e-5) << name;
    }
}

TEST_F(Vulkan, GradientsOfTinyModelsMatchFloat64) {
    for (const char * name : {"tiny-gemma4", "tiny-gemma3"}) {
        const Reference reference = load_reference(name);
        for (const bool recompute : {true, false}) {
            const TinyModel tiny = load_tiny(name, name_);
            TinyAdapter adapter = make_adapter(reference, tiny.model->device());
            RunOptions options;
            options.recompute = recompute;
            const RunResult run = run_training(tiny, reference, adapter, options);
            double worst = 0;
            for (const auto & [tensor, gradient] : run.gradients) {
                worst =
                    std::max(worst, relative_l2(gradient, reference.tensors.at("grad." + tensor)));
            }
            std::printf("%s recompute %d: %zu tensors, worst %.1e, loss %.6f (%.6f)\n", name,
                        recompute ? 1 : 0, run.gradients.size(), worst,
                        static_cast<double>(run.loss_sum), static_cast<double>(reference.loss_sum));
            EXPECT_EQ(run.gradients.size(), adapter.pairs.size() * 2);
            EXPECT_LT(worst, 1e-3) << name;
            EXPECT_NEAR(run.loss_sum / reference.loss_sum, 1.0, 1e-4);
        }
    }
}

}  // namespace
}  // namespace lumi::test
