// SPDX-License-Identifier: Apache-2.0
// When a run saves: every so many steps, or at the optimum for the measured cost of a save. Pure:
// it knows neither clocks nor ranks. One rank asks it and tells the others.
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace espalier {

/// Seconds of training between two saves for which least time is lost in the mean, to saving and
/// to work done again after failures that come independently of each other.
///
/// Source   Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart
///          dumps", Future Generation Computer Systems 22, eq. 37; its first term is the optimum of
///          Young 1974, "A first order approximation to the optimum checkpoint interval". Restart
///          takes the same time whatever the interval, so it does not enter.
/// Errors   Internal unless the cost is at least 0 and the time between failures above 0, both
///          finite
double optimum_interval(double save_cost_s, double mean_time_between_failures_s);

/// All times are seconds of one steady clock.
class SavePolicy {
 public:
  /// The estimate stands in for the cost of a save until the first one is measured; the interval
  /// counts from `start_s` until then.
  SavePolicy(const Config& config, double first_cost_estimate_s, double start_s);

  /// Whether to save now that `step` is done. Not at a step that has been saved.
  ///   fixed       at multiples of checkpoint.interval
  ///   young_daly  when interval_seconds() have passed since training went on after the last save,
  ///               and at multiples of checkpoint.keep_every, which are asked to stay
  bool is_due(int64_t step, double now_s) const;

  /// A save of this step's state has begun; the next interval counts from here until it is done.
  void begun(int64_t step, double now_s);

  /// A save is done, at `now_s`: `cost_s` training stood still for it, `duration_s` it took in all.
  /// Costs of later saves count as much as all earlier ones together, so the policy follows a
  /// file system that gets slower within a few saves and does not follow one that hiccups.
  void saved(int64_t step, double now_s, double cost_s, double duration_s);

  /// 0 for the rule fixed. Else the optimum, but at least the duration of a save in asynchronous
  /// mode: a save that finds the one before it still running would wait for it.
  double interval_seconds() const;

  /// As estimated, or measured.
  double save_cost_seconds() const { return cost_s_; }
  double save_duration_seconds() const { return duration_s_; }

 private:
  CheckpointConfig checkpoint_;
  double cost_s_, duration_s_;
  double interval_start_s_;
  int64_t last_step_ = -1;
  bool is_measured_ = false;
};

}  // namespace espalier
