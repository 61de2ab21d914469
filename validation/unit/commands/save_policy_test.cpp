// SPDX-License-Identifier: Apache-2.0
// When a run saves.
#include "commands/save_policy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr double kDay = 86400.0;

Config by_steps(int64_t interval) {
  Config config;
  config.checkpoint.interval = interval;
  return config;
}

Config by_failures(double seconds, SaveMode mode) {
  Config config;
  config.checkpoint.interval_rule = IntervalRule::young_daly;
  config.checkpoint.mean_time_between_failures = seconds;
  config.checkpoint.mode = mode;
  return config;
}

// Daly 2006: mean wall time of a unit of work when failures are a Poisson process, divided
// by what does not depend on the interval.
double relative_wall_time(double interval, double cost, double between) {
  return std::expm1((interval + cost) / between) / interval;
}

// Golden section search, which knows nothing of the formula.
double searched_optimum(double cost, double between) {
  double a = 1e-3 * cost, b = 10.0 * between;
  const double share = (std::sqrt(5.0) - 1.0) / 2.0;
  for (int i = 0; i < 200; ++i) {
    const double c = b - share * (b - a), d = a + share * (b - a);
    if (relative_wall_time(c, cost, between) < relative_wall_time(d, cost, between))
      b = d;
    else
      a = c;
  }
  return 0.5 * (a + b);
}

TEST(SavePolicyInterval, IsWhereTheMeanWallTimeIsLeast) {
  for (const double cost : {1.0, 60.0, 300.0, 1800.0}) {
    const double found = optimum_interval(cost, kDay);
    EXPECT_NEAR(found, searched_optimum(cost, kDay), 1e-3 * found) << cost;
  }
  // Control: Young's first order alone is off by more than that.
  EXPECT_GT(std::abs(std::sqrt(2.0 * 300.0 * kDay) / searched_optimum(300.0, kDay) - 1.0), 0.02);
}

// Figures 3 to 5 of Daly 2006: a save of 5 minutes; all in minutes.
TEST(SavePolicyInterval, IsThatOfThePaper) {
  EXPECT_NEAR(optimum_interval(5.0, 24.0 * 60.0), 117.0, 0.5);
  EXPECT_NEAR(optimum_interval(5.0, 6.0 * 60.0), 57.0, 0.5);
  EXPECT_NEAR(optimum_interval(5.0, 15.0), 9.1, 0.05);
}

TEST(SavePolicyInterval, Ends) {
  EXPECT_EQ(optimum_interval(0.0, kDay), 0.0);
  EXPECT_EQ(optimum_interval(200.0, 100.0), 100.0);
  EXPECT_EQ(optimum_interval(1000.0, 100.0), 100.0);
  // Just below, the series has its three terms in full: 2 M (1 + 1/3 + 1/9) - 2 M.
  EXPECT_NEAR(optimum_interval(199.9999, 100.0), 800.0 / 9.0, 1e-3);
  EXPECT_THROW(optimum_interval(-1.0, kDay), InternalError);
  EXPECT_THROW(optimum_interval(1.0, 0.0), InternalError);
  EXPECT_THROW(optimum_interval(std::nan(""), kDay), InternalError);
}

TEST(SavePolicy, FixedFollowsTheStepsAlone) {
  SavePolicy policy(by_steps(10), 5.0, 0.0);
  std::vector<int64_t> due;
  for (int64_t step = 1; step <= 35; ++step)
    if (policy.is_due(step, 1e9)) due.push_back(step);
  EXPECT_EQ(due, (std::vector<int64_t>{10, 20, 30}));
  EXPECT_EQ(policy.interval_seconds(), 0.0);
  policy.begun(20, 1.0);
  EXPECT_FALSE(policy.is_due(20, 2.0));
  EXPECT_TRUE(policy.is_due(30, 2.0));
  const SavePolicy never(by_steps(0), 5.0, 0.0);
  for (int64_t step = 1; step <= 35; ++step) EXPECT_FALSE(never.is_due(step, 1e9));
}

TEST(SavePolicy, YoungDalyCountsFromTheStartAndFromEachSave) {
  const double interval = optimum_interval(60.0, kDay);
  SavePolicy policy(by_failures(kDay, SaveMode::synchronous), 60.0, 1000.0);
  EXPECT_EQ(policy.interval_seconds(), interval);
  EXPECT_FALSE(policy.is_due(1, 1000.0 + interval - 1.0));
  EXPECT_TRUE(policy.is_due(2, 1000.0 + interval));
  policy.begun(2, 5000.0);
  policy.saved(2, 5060.0, 60.0, 60.0);
  EXPECT_FALSE(policy.is_due(3, 5060.0 + interval - 1.0));
  EXPECT_TRUE(policy.is_due(3, 5060.0 + interval));
}

TEST(SavePolicy, MeasuredCostReplacesTheEstimateAndIsSmoothed) {
  SavePolicy policy(by_failures(kDay, SaveMode::synchronous), 1000.0, 0.0);
  policy.saved(1, 100.0, 10.0, 10.0);
  EXPECT_EQ(policy.save_cost_seconds(), 10.0);
  EXPECT_EQ(policy.interval_seconds(), optimum_interval(10.0, kDay));
  policy.saved(2, 200.0, 30.0, 30.0);
  EXPECT_EQ(policy.save_cost_seconds(), 20.0);
}

TEST(SavePolicy, AsynchronousIntervalIsNeverShorterThanASave) {
  SavePolicy policy(by_failures(kDay, SaveMode::asynchronous), 1.0, 0.0);
  policy.begun(1, 1000.0);
  EXPECT_FALSE(policy.is_due(2, 1001.0));  // the save is under way
  policy.saved(1, 2000.0, 0.5, 1000.0);
  EXPECT_LT(optimum_interval(0.5, kDay), 1000.0);
  EXPECT_EQ(policy.interval_seconds(), 1000.0);
  // Training went on at 1000.5, when the copy was made.
  EXPECT_FALSE(policy.is_due(2, 2000.0));
  EXPECT_TRUE(policy.is_due(2, 2000.5));
  SavePolicy waits(by_failures(kDay, SaveMode::synchronous), 1.0, 0.0);
  waits.saved(1, 2000.0, 0.5, 1000.0);
  EXPECT_EQ(waits.interval_seconds(), optimum_interval(0.5, kDay));
}

TEST(SavePolicy, YoungDalySavesTheStepsThatAreToStay) {
  Config config = by_failures(kDay, SaveMode::asynchronous);
  config.checkpoint.keep_every = 100;
  SavePolicy policy(config, 60.0, 0.0);
  EXPECT_TRUE(policy.is_due(100, 1.0));
  EXPECT_FALSE(policy.is_due(101, 1.0));
  policy.begun(100, 1.0);
  EXPECT_FALSE(policy.is_due(100, 1e9));
}

}  // namespace
}  // namespace espalier
