// SPDX-License-Identifier: Apache-2.0
// The schedules: exact ends, values at known places, and what happens at the edges.
#include "optim/learning_rate.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr double kPeak = 3e-4, kFloor = 3e-5;

struct Case {
  ScheduleConfig schedule;
  OptimizerConfig optimizer;
  int64_t total = 100;
  double at(int64_t step) const { return learning_rate(schedule, optimizer, total, step); }
};

Case make(DecayKind decay, int64_t warmup) {
  Case c;
  c.schedule.decay = decay;
  c.schedule.warmup_steps = warmup;
  c.schedule.min_learning_rate = kFloor;
  c.schedule.decay_steps = 20;
  c.optimizer.learning_rate = kPeak;
  return c;
}

TEST(LearningRate, WarmsUpLinearlyToThePeak) {
  for (const DecayKind decay :
       {DecayKind::constant, DecayKind::linear, DecayKind::cosine, DecayKind::wsd}) {
    const Case c = make(decay, 8);
    EXPECT_EQ(c.at(0), kPeak / 8);
    EXPECT_EQ(c.at(3), kPeak / 2);
    EXPECT_EQ(c.at(7), kPeak);
    EXPECT_EQ(make(decay, 1).at(0), kPeak);
    EXPECT_EQ(make(decay, 0).at(0), kPeak);
  }
}

TEST(LearningRate, EndsExactlyAtTheFloor) {
  for (const int64_t warmup : {0, 1, 8})
    for (const DecayKind decay : {DecayKind::linear, DecayKind::cosine, DecayKind::wsd}) {
      const Case c = make(decay, warmup);
      EXPECT_EQ(c.at(99), kFloor);
      EXPECT_EQ(c.at(100), kFloor);  // behind the last step
      EXPECT_EQ(c.at(5000), kFloor);
      EXPECT_GT(c.at(98), kFloor);
    }
  EXPECT_EQ(make(DecayKind::constant, 8).at(99), kPeak);
}

TEST(LearningRate, NeverRisesAfterWarmup) {
  for (const DecayKind decay :
       {DecayKind::constant, DecayKind::linear, DecayKind::cosine, DecayKind::wsd}) {
    const Case c = make(decay, 8);
    for (int64_t s = 8; s < 100; ++s) EXPECT_LE(c.at(s), c.at(s - 1)) << s;
  }
}

TEST(LearningRate, HasKnownValuesBetween) {
  // Without warmup the decay runs over steps 0 to 100.
  Case linear = make(DecayKind::linear, 0), cosine = make(DecayKind::cosine, 0);
  linear.total = cosine.total = 101;
  EXPECT_DOUBLE_EQ(linear.at(25), kFloor + 0.75 * (kPeak - kFloor));
  EXPECT_DOUBLE_EQ(cosine.at(50), 0.5 * (kPeak + kFloor));
  // cos(pi / 3) = 1/2 needs a total that is a multiple of three
  cosine.total = 31;
  EXPECT_NEAR(cosine.at(10), kFloor + 0.75 * (kPeak - kFloor), 1e-18);
  // With 5 steps of warmup, step 4 is the first at the peak: decay runs over steps 4 to 104.
  linear = make(DecayKind::linear, 5);
  linear.total = 105;
  EXPECT_DOUBLE_EQ(linear.at(54), 0.5 * (kPeak + kFloor));
}

TEST(LearningRate, KeepsThePeakUntilTheTail) {
  Case c = make(DecayKind::wsd, 8);
  for (int64_t s = 7; s < 80; ++s) EXPECT_EQ(c.at(s), kPeak) << s;
  c.schedule.wsd_tail = WsdTail::linear;
  EXPECT_DOUBLE_EQ(c.at(80), kFloor + 0.95 * (kPeak - kFloor));
  EXPECT_DOUBLE_EQ(c.at(89), kFloor + 0.50 * (kPeak - kFloor));
  c.schedule.wsd_tail = WsdTail::one_minus_sqrt;
  EXPECT_DOUBLE_EQ(c.at(84), kFloor + 0.5 * (kPeak - kFloor));  // a quarter of the tail: 1 - 1/2
  EXPECT_DOUBLE_EQ(c.at(80), kFloor + (1 - std::sqrt(0.05)) * (kPeak - kFloor));
}

TEST(LearningRate, HoldsAtTheEdges) {
  // Warmup that fills the run: nothing is left to decay.
  Case c = make(DecayKind::cosine, 100);
  EXPECT_EQ(c.at(99), kPeak);
  // A run of one step.
  c = make(DecayKind::cosine, 0);
  c.total = 1;
  EXPECT_EQ(c.at(0), kPeak);
  // A tail of one step is the last step alone.
  c = make(DecayKind::wsd, 0);
  c.schedule.decay_steps = 1;
  EXPECT_EQ(c.at(98), kPeak);
  EXPECT_EQ(c.at(99), kFloor);
  EXPECT_THROW(c.at(-1), InternalError);
  c.total = 0;
  EXPECT_THROW(c.at(0), InternalError);
}

}  // namespace
}  // namespace espalier
