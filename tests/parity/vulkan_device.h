// A Vulkan device for tests (a software one will do), found after ggml was told to show it. Without
// half precision unless the binary is compiled with LUMI_VULKAN_FP16.
#pragma once

#include "device/device.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace lumi::test {

#ifdef LUMI_VULKAN_FP16
inline constexpr bool kHalfPrecision = true;
#else
inline constexpr bool kHalfPrecision = false;
#endif
// Before any backend is loaded: ggml ignores software devices unless they are named, and rounds
// products to F16 where the device has it.
inline const bool kConfigured = [] {
    setenv("GGML_VK_VISIBLE_DEVICES", "0", 0);
    if (kHalfPrecision) {
        unsetenv("GGML_VK_DISABLE_F16");
    } else {
        setenv("GGML_VK_DISABLE_F16", "1", 1);
    }
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
    // A fresh one for every graph: Debian 12's software Vulkan (Mesa 22.3) corrupts its heap when
    // memory that a graph used is freed before the backend is (seen with ggml alone: four graphs
    // of other shapes crash in the first round, and never while their buffers are kept).
    Device open() const {
        Result<Device> device = Device::open(name_, 1);
        EXPECT_TRUE(device.ok()) << device.error().message;
        return std::move(device).value();
    }
    std::string name_;
};

}  // namespace lumi::test
