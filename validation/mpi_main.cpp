// SPDX-License-Identifier: Apache-2.0
// main of GoogleTest programs that run under the launcher: starts MPI and Kokkos, lets rank 0
// speak, and fails on every rank when any rank fails, throws or waits for ever.
#include "mpi_main.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "device_session.hpp"
#include "grid/transport.hpp"

namespace espalier {
namespace {

const MpiSession* session = nullptr;

constexpr double kLongestWait = 90.0;  // s; a rank whose test ended early leaves the others waiting

// The ranks that do not print their progress still print what failed.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override {
    test_ = fmt::format("{}.{}", info.test_suite_name(), info.name());
  }
  // GoogleTest holds its lock here, so it must not be asked which test is running.
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: Failure in %s\n%s\n", session->rank(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), test_.c_str(),
                 result.summary());
  }
  std::string test_ = "no test";
};

void watch(const WaitPlace& place) {
  if (place.waited_s < kLongestWait) return;
  print_error(fmt::format("rank {} has waited {:.0f} s in {} over {}; the other ranks did not come",
                          session->rank(), place.waited_s, place.operation, place.axis));
  MpiSession::abort(EXIT_FAILURE);
}

int run_tests() {
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  if (tests.test_to_run_count() > 0) return result;
  print_error("no test matches the filter " + GTEST_FLAG_GET(filter));
  return EXIT_FAILURE;
}

}  // namespace

const MpiSession& test_session() {
  return *session;
}

}  // namespace espalier

int main(int argc, char** argv) {
  using namespace espalier;
  MpiSession mpi(argc, argv);
  session = &mpi;
  try {
    const DeviceSession device;
    if (device.is_missing()) return device.kSkipped;
    if constexpr (device::kPresent) {
      GridConfig grid;
      grid.staging_mib = 1.0 / 128;  // so that messages of tests have several portions
      open_transport(grid, mpi.world());
    }
    Kokkos::ScopeGuard kokkos(argc, argv);
    testing::InitGoogleTest(&argc, argv);
    GTEST_FLAG_SET(catch_exceptions, false);  // the others would wait for a rank that threw
    if (mpi.rank() != 0) {
      auto& listeners = testing::UnitTest::GetInstance()->listeners();
      delete listeners.Release(listeners.default_result_printer());
      listeners.Append(new FailurePrinter);
      set_speaking(false);
    }
    set_watchdog(watch);
    return mpi.world().all_reduce(run_tests(), ReduceOp::max);
  } catch (const std::exception& error) {
    print_error(fmt::format("rank {} of {}: {}", mpi.rank(), mpi.size(), error.what()));
    MpiSession::abort(EXIT_FAILURE);
  }
}
