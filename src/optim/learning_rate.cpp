// SPDX-License-Identifier: Apache-2.0
// Warmup and the four ways to go on from it.
#include "optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace espalier {
namespace {

// Between peak (fraction 1) and floor (fraction 0); exact at both ends.
double between(double floor, double peak, double fraction) {
  if (fraction >= 1.0) return peak;
  if (fraction <= 0.0) return floor;
  return floor + (peak - floor) * fraction;
}

double ratio(int64_t part, int64_t whole) {
  return whole <= 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// What remains of peak - floor.
double decay_fraction(const ScheduleConfig& schedule, int64_t total_steps, int64_t step) {
  const int64_t first = std::max<int64_t>(schedule.warmup_steps - 1, 0);
  const double p = ratio(step - first, total_steps - 1 - first);
  switch (schedule.decay) {
    case DecayKind::constant: return 1.0;
    case DecayKind::linear: return 1.0 - p;
    case DecayKind::cosine: return 0.5 * (1.0 + std::cos(M_PI * p));
    case DecayKind::wsd: break;
  }
  const int64_t tail_done = step + 1 - (total_steps - schedule.decay_steps);
  if (tail_done <= 0) return 1.0;
  const double q = ratio(tail_done, schedule.decay_steps);
  return 1.0 - (schedule.wsd_tail == WsdTail::linear ? q : std::sqrt(q));
}

}  // namespace

double learning_rate(const ScheduleConfig& schedule, const OptimizerConfig& optimizer,
                     int64_t total_steps, int64_t step) {
  ESPALIER_REQUIRE(step >= 0 && total_steps > 0, "learning rate of step {} of {}", step,
                   total_steps);
  const double peak = optimizer.learning_rate;
  if (step < schedule.warmup_steps) return peak * ratio(step + 1, schedule.warmup_steps);
  const int64_t known = std::min(step, total_steps - 1);
  return between(schedule.min_learning_rate, peak, decay_fraction(schedule, total_steps, known));
}

}  // namespace espalier
