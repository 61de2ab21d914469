// SPDX-License-Identifier: Apache-2.0
// As gpu_main.cpp, with Kokkos, for tests of portable kernels on a device.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>

#include "device/device.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (espalier::device::count() == 0) {
    std::printf("skipped: this process sees no device\n");
    return 77;
  }
  espalier::device::open(0);
  int result = 0;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    result = RUN_ALL_TESTS();
  }
  espalier::device::close();
  return result;
}
