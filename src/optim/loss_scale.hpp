// SPDX-License-Identifier: Apache-2.0
// The dynamic loss scale of fp16 training.
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace espalier {

/// What a checkpoint keeps.
struct LossScaleState {
  double scale = 1.0;
  int64_t good_steps = 0;        // since the last change of scale
  int64_t skipped_in_a_row = 0;  // steps
  int64_t skipped = 0;           // steps, in all
};

enum class StepVerdict { update, skip };

/// Multiplies the loss so that small gradients survive fp16: halves when gradients overflow (that
/// step is skipped), doubles after loss_scale_growth_steps good steps in a row. Between 1 and 2^24.
/// Element types other than fp16 keep the scale 1 and never skip.
/// Source  Micikevicius et al. 2018, arXiv:1710.03740
class LossScale {
 public:
  LossScale(const NumericsConfig& config);  // NOLINT: the only thing it is made from

  double value() const { return state_.scale; }
  /// After a backward pass: whether all gradients are finite decides on the step and the next
  /// scale. All ranks must say the same. Errors  NumericalError: for fp16, after kMostSkips skips
  /// in a row or an overflow at scale 1;
  ///         for other types at once
  StepVerdict judge(bool is_finite);

  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

  static constexpr int64_t kMostSkips = 20;

 private:
  bool is_dynamic_;
  int64_t growth_steps_;
  LossScaleState state_;
};

}  // namespace espalier
