// SPDX-License-Identifier: Apache-2.0
// Growth, fall, skips and the end of the dynamic loss scale.
#include "optim/loss_scale.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace espalier {
namespace {

NumericsConfig numerics(ElementType type, double initial, int64_t growth) {
  NumericsConfig n;
  n.compute_type = type;
  n.loss_scale_initial = initial;
  n.loss_scale_growth_steps = growth;
  return n;
}

TEST(LossScale, GrowsAfterGoodStepsInARow) {
  LossScale scale(numerics(ElementType::fp16, 1024.0, 3));
  EXPECT_EQ(scale.value(), 1024.0);
  EXPECT_EQ(scale.judge(true), StepVerdict::update);
  EXPECT_EQ(scale.judge(true), StepVerdict::update);
  EXPECT_EQ(scale.value(), 1024.0);
  scale.judge(true);
  EXPECT_EQ(scale.value(), 2048.0);
  // A skip in between starts the count anew.
  scale.judge(true);
  scale.judge(true);
  EXPECT_EQ(scale.judge(false), StepVerdict::skip);
  EXPECT_EQ(scale.value(), 1024.0);
  scale.judge(true);
  scale.judge(true);
  EXPECT_EQ(scale.value(), 1024.0);
  scale.judge(true);
  EXPECT_EQ(scale.value(), 2048.0);
  EXPECT_EQ(scale.state().skipped, 1);
}

TEST(LossScale, StaysWithinItsBounds) {
  LossScale scale(numerics(ElementType::fp16, 8388608.0, 1));
  for (int i = 0; i < 10; ++i) scale.judge(true);
  EXPECT_EQ(scale.value(), 16777216.0);
  LossScale low(numerics(ElementType::fp16, 2.0, 1000));
  EXPECT_EQ(low.judge(false), StepVerdict::skip);
  EXPECT_EQ(low.value(), 1.0);
  EXPECT_THROW(low.judge(false), NumericalError);  // nowhere to go
}

TEST(LossScale, GivesUpAfterTwentySkips) {
  LossScale scale(numerics(ElementType::fp16, 16777216.0, 1000));
  for (int64_t i = 1; i < LossScale::kMostSkips; ++i)
    ASSERT_EQ(scale.judge(false), StepVerdict::skip) << i;
  EXPECT_THROW(scale.judge(false), NumericalError);
}

TEST(LossScale, OtherTypesKeepOneAndNeverSkip) {
  for (const ElementType type : {ElementType::fp32, ElementType::bf16, ElementType::fp64}) {
    LossScale scale(numerics(type, 65536.0, 1));
    EXPECT_EQ(scale.judge(true), StepVerdict::update);
    EXPECT_EQ(scale.value(), 1.0);
    EXPECT_THROW(scale.judge(false), NumericalError);
  }
}

TEST(LossScale, GoesOnFromASavedState) {
  const NumericsConfig n = numerics(ElementType::fp16, 1024.0, 4);
  LossScale straight(n), first(n);
  const bool finite[] = {true, true, false, true, true, true, true, true, false, true};
  for (const bool f : finite) straight.judge(f);
  for (int i = 0; i < 5; ++i) first.judge(finite[i]);
  LossScale second(n);
  second.restore(first.state());
  for (int i = 5; i < 10; ++i) second.judge(finite[i]);
  EXPECT_EQ(second.value(), straight.value());
  EXPECT_EQ(second.state().good_steps, straight.state().good_steps);
  EXPECT_EQ(second.state().skipped, straight.state().skipped);
}

}  // namespace
}  // namespace espalier
