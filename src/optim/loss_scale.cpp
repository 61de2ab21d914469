// SPDX-License-Identifier: Apache-2.0
// Growth and fall of the loss scale.
#include "optim/loss_scale.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr double kLeastScale = 1.0;
constexpr double kGreatestScale = 16777216.0;  // 2^24, beyond fp16's range by far

}  // namespace

LossScale::LossScale(const NumericsConfig& config)
    : is_dynamic_(config.compute_type == ElementType::fp16),
      growth_steps_(config.loss_scale_growth_steps) {
  if (is_dynamic_) state_.scale = config.loss_scale_initial;
}

StepVerdict LossScale::judge(bool is_finite) {
  if (is_finite) {
    state_.skipped_in_a_row = 0;
    if (is_dynamic_ && ++state_.good_steps >= growth_steps_) {
      state_.scale = std::min(2.0 * state_.scale, kGreatestScale);
      state_.good_steps = 0;
    }
    return StepVerdict::update;
  }
  if (!is_dynamic_)
    throw NumericalError(
        "the gradient is not finite (infinite or not a number); lower optimizer.learning_rate, "
        "lengthen schedule.warmup_steps, or look at the data of this step");
  ++state_.skipped;
  ++state_.skipped_in_a_row;
  state_.good_steps = 0;
  if (state_.skipped_in_a_row >= kMostSkips || state_.scale <= kLeastScale)
    throw NumericalError(
        fmt::format("fp16 gradients overflowed in {} steps in a row and the loss scale has come "
                    "down to {}; use "
                    "numerics.compute_type = \"bf16\", or lower optimizer.learning_rate",
                    state_.skipped_in_a_row, state_.scale));
  state_.scale = std::max(0.5 * state_.scale, kLeastScale);
  return StepVerdict::skip;
}

}  // namespace espalier
