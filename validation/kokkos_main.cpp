// SPDX-License-Identifier: Apache-2.0
// The main of test programs that need Kokkos but no MPI.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "device_session.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const espalier::DeviceSession device;
  if (device.is_missing()) return device.kSkipped;
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return RUN_ALL_TESTS();
}
