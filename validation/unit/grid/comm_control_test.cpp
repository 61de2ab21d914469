// SPDX-License-Identifier: Apache-2.0
// Tests that fail on purpose on one rank of three; mpi_main_test.sh demands that the program fails.
#include <gtest/gtest.h>

#include <stdexcept>

#include "mpi_main.hpp"

namespace espalier {
namespace {

TEST(Control, DISABLED_OneRankThrows) {
  if (test_session().rank() == 2) throw std::runtime_error("thrown on purpose");
  test_session().world().barrier();
}

TEST(Control, DISABLED_OneRankFails) {
  EXPECT_NE(test_session().rank(), 1);
}

}  // namespace
}  // namespace espalier
