// SPDX-License-Identifier: Apache-2.0
// An error of one rank is the error of all.
#include "grid/agreement.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/error.hpp"
#include "mpi_main.hpp"

namespace espalier {
namespace {

const Comm& world() {
  return test_session().world();
}

TEST(Agreement, RunsOnEveryRank) {
  int runs = 0;
  run_agreed(world(), [&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(Agreement, ThrowsTheFirstRanksErrorEverywhere) {
  for (int first = 0; first < world().size(); ++first) {
    const auto attempt = [&] {
      run_agreed(world(), [&] {
        if (world().rank() >= first) throw DataError("rank " + std::to_string(world().rank()));
      });
    };
    try {
      attempt();
      FAIL() << "nothing was thrown";
    } catch (const DataError& e) {
      EXPECT_EQ(e.what(), "rank " + std::to_string(first));
    }
  }
}

TEST(Agreement, KeepsTheClassOfTheError) {
  const int last = world().size() - 1;
  EXPECT_THROW(run_agreed(world(),
                          [&] {
                            if (world().rank() == last) throw LaunchError("launch");
                          }),
               LaunchError);
  EXPECT_THROW(run_agreed(world(),
                          [&] {
                            if (world().rank() == last) throw DeckError("");
                          }),
               DeckError);
  EXPECT_THROW(run_agreed(world(),
                          [&] {
                            if (world().rank() == last) throw InternalError("defect");
                          }),
               InternalError);
  run_agreed(world(), [] {});
}

TEST(Agreement, DuplicatesHaveMessagesOfTheirOwn) {
  const Comm other = world().duplicate("other");
  ASSERT_EQ(other.size(), world().size());
  ASSERT_EQ(other.rank(), world().rank());
  if (world().size() == 1) return;
  // Received in the other order than sent: one communicator would mix them up.
  const int next = (world().rank() + 1) % world().size();
  const int before = (world().rank() + world().size() - 1) % world().size();
  int32_t a = 1, b = 2, got_a = 0, got_b = 0;
  Request send_a = world().start_send(&a, 1, next, 5);
  Request send_b = other.start_send(&b, 1, next, 5);
  other.recv(&got_b, 1, before, 5);
  world().recv(&got_a, 1, before, 5);
  EXPECT_EQ(got_a, 1);
  EXPECT_EQ(got_b, 2);
}

}  // namespace
}  // namespace espalier
