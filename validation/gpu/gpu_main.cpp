// SPDX-License-Identifier: Apache-2.0
// The main of tests of kernels, without Kokkos.
#include <gtest/gtest.h>

#include "device_session.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const espalier::DeviceSession device;
  if (device.is_missing()) return device.kSkipped;
  return RUN_ALL_TESTS();
}
