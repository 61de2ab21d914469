// SPDX-License-Identifier: Apache-2.0
#include "commands/save_policy.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace espalier {

double optimum_interval(double save_cost_s, double mean_time_between_failures_s) {
  const double cost = save_cost_s, between = mean_time_between_failures_s;
  ESPALIER_REQUIRE(std::isfinite(cost) && cost >= 0.0, "a save that costs {} s", cost);
  ESPALIER_REQUIRE(std::isfinite(between) && between > 0.0, "{} s between failures", between);
  if (cost >= 2.0 * between) return between;
  const double ratio = cost / (2.0 * between);
  return std::sqrt(2.0 * cost * between) * (1.0 + std::sqrt(ratio) / 3.0 + ratio / 9.0) - cost;
}

SavePolicy::SavePolicy(const Config& config, double first_cost_estimate_s, double start_s)
    : checkpoint_(config.checkpoint),
      cost_s_(first_cost_estimate_s),
      duration_s_(first_cost_estimate_s),
      interval_start_s_(start_s) {}

bool SavePolicy::is_due(int64_t step, double now_s) const {
  if (step == last_step_) return false;
  if (checkpoint_.interval_rule == IntervalRule::fixed)
    return checkpoint_.interval > 0 && step % checkpoint_.interval == 0;
  if (checkpoint_.keep_every > 0 && step % checkpoint_.keep_every == 0) return true;
  return now_s - interval_start_s_ >= interval_seconds();
}

void SavePolicy::begun(int64_t step, double now_s) {
  last_step_ = step;
  interval_start_s_ = now_s;
}

void SavePolicy::saved(int64_t step, double now_s, double cost_s, double duration_s) {
  last_step_ = std::max(last_step_, step);
  // Where the writer worked beside the training, that went on when the copy was made.
  interval_start_s_ = std::max(interval_start_s_, now_s - std::max(0.0, duration_s - cost_s));
  cost_s_ = is_measured_ ? 0.5 * (cost_s_ + cost_s) : cost_s;
  duration_s_ = is_measured_ ? 0.5 * (duration_s_ + duration_s) : duration_s;
  is_measured_ = true;
}

double SavePolicy::interval_seconds() const {
  if (checkpoint_.interval_rule == IntervalRule::fixed) return 0.0;
  const double optimum = optimum_interval(cost_s_, checkpoint_.mean_time_between_failures);
  return checkpoint_.mode == SaveMode::asynchronous ? std::max(optimum, duration_s_) : optimum;
}

}  // namespace espalier
