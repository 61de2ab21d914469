// SPDX-License-Identifier: Apache-2.0
// The device of a test program, from before Kokkos starts until after it has ended. In a host build
// there is none, and nothing happens. ESPALIER_TEST_KERNELS=portable takes no kernel from cuda/.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "device/device.hpp"

namespace espalier {

class DeviceSession {
 public:
  /// What CTest takes as skipped.
  static constexpr int kSkipped = 77;

  DeviceSession() : is_open_(device::kPresent && device::count() > 0) {
    if (is_open_) device::open(0);
    const char* const kernels = std::getenv("ESPALIER_TEST_KERNELS");
    if (kernels != nullptr) device::set_tuned_kernels(std::string(kernels) != "portable");
  }
  ~DeviceSession() {
    if (is_open_) device::close();
  }
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

  /// Whether the tests cannot run here; says so.
  bool is_missing() const {
    if (!device::kPresent || is_open_) return false;
    std::puts("skipped: no GPU that this process may use");
    return true;
  }

 private:
  bool is_open_;
};

}  // namespace espalier
