// SPDX-License-Identifier: Apache-2.0
// Tests of kernels: opens the device, or says that there is none and is skipped (exit code 77).
#include <gtest/gtest.h>

#include <cstdio>

#include "device/device.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (espalier::device::count() == 0) {
    std::printf("skipped: this process sees no device\n");
    return 77;
  }
  espalier::device::open(0);
  const int result = RUN_ALL_TESTS();
  espalier::device::close();
  return result;
}
