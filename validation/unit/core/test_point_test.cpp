// SPDX-License-Identifier: Apache-2.0
// Each case sets its variable and runs in a process of its own, since they are read once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"

namespace espalier {
namespace {

/// The wait status of a process that runs `action` with one variable set.
template <class Action>
int status_with(const char* variable, const char* value, const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(variable, value, 1);
    action();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

bool is_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST(TestPoint, KillsAtTheVisitPhaseAndRankThatWereNamed) {
  const auto visit = [](int rank, int times) {
    return [=] {
      set_test_rank(rank);
      for (int i = 0; i < times; ++i) test_point("a.b");
      test_point("other");
    };
  };
  EXPECT_TRUE(is_killed(status_with("ESPALIER_TEST_KILL", "a.b:0", visit(0, 1))));
  EXPECT_TRUE(is_killed(status_with("ESPALIER_TEST_KILL", "a.b:3:2", visit(3, 2))));
  EXPECT_EQ(status_with("ESPALIER_TEST_KILL", "a.b:3:2", visit(3, 1)), 0);
  EXPECT_EQ(status_with("ESPALIER_TEST_KILL", "a.b:1", visit(0, 5)), 0);
  EXPECT_EQ(status_with("ESPALIER_TEST_KILL", "a:0", visit(0, 5)), 0);
}

TEST(TestPoint, FailsOnceAndPauses) {
  EXPECT_EQ(status_with("ESPALIER_TEST_FAIL", "p:0:2",
                        [] {
                          test_point("p");
                          try {
                            test_point("p");
                            ::_exit(1);
                          } catch (const DataError&) {
                          }
                          test_point("p");
                        }),
            0);
  EXPECT_EQ(status_with("ESPALIER_TEST_PAUSE", "p:50",
                        [] {
                          const double start = monotonic_seconds();
                          test_point("q");
                          test_point("p");
                          if (monotonic_seconds() - start < 0.05) ::_exit(1);
                        }),
            0);
}

TEST(TestPoint, RefusesOtherForms) {
  for (const char* value : {"", "p", "p:", "p:x", "p:0:1:2", ":0", "p:-1", "p:1x"})
    EXPECT_EQ(status_with("ESPALIER_TEST_KILL", value,
                          [] {
                            try {
                              test_point("p");
                            } catch (const DeckError&) {
                              ::_exit(0);
                            }
                            ::_exit(1);
                          }),
              0)
        << value;
}

}  // namespace
}  // namespace espalier
