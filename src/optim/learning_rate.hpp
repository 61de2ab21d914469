// SPDX-License-Identifier: Apache-2.0
// The learning rate of every step, a pure function of the deck.
#pragma once

#include <cstdint>

#include "deck/config.hpp"

namespace espalier {

/// Learning rate of step `step`, 0 <= step < total_steps.
///
/// With w warmup steps, peak = optimizer.learning_rate and floor = schedule.min_learning_rate:
///   warmup    step < w: peak (step + 1) / w; so step w - 1 is the first at the peak
///   constant  peak
///   linear    floor + (peak - floor) (1 - p)
///   cosine    floor + (peak - floor) (1 + cos(pi p)) / 2
///             where p = (step - first) / (last - first) runs from 0 at first = max(w - 1, 0), the
///             first step at the peak, to 1 at last = total_steps - 1; p = 0 if they are the same
///   wsd       peak, until the tail of decay_steps steps: floor + (peak - floor) (1 - f(p)), where
///             p = (steps of the tail done, this one included) / decay_steps is 1 at the last step,
///             and f(p) = p (linear) or sqrt(p) (one_minus_sqrt)
/// Peak and floor are reached exactly. A step behind the last has the last one's rate.
/// Errors  Internal for a negative step or total
/// Source  cosine: Loshchilov & Hutter 2017, arXiv:1608.03983; warmup-stable-decay and its 1-sqrt
///         tail: Hagele et al. 2024, arXiv:2405.18392
double learning_rate(const ScheduleConfig& schedule, const OptimizerConfig& optimizer,
                     int64_t total_steps, int64_t step);

}  // namespace espalier
