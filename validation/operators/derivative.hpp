// SPDX-License-Identifier: Apache-2.0
// Numerical derivatives that need no tuning of the step.
#pragma once

#include <functional>
#include <vector>

namespace espalier::check {

/// The limit at h = 0 of central(h), an even function of h such as a central difference: its values
/// at first_step, first_step / 2, ... extrapolated by powers of h^2. Of all estimates the one whose
/// neighbours agree best is taken, so no knowledge of the true limit enters.
/// Source    Ridders 1982, Adv. Eng. Software 4, 75
double extrapolated_to_zero(const std::function<double(double)>& central, double first_step);

/// df/dh at h = 0 from (f(h) - f(-h)) / 2h.
double derivative(const std::function<double(double)>& f, double first_step);

double dot(const std::vector<double>& a, const std::vector<double>& b);
double length(const std::vector<double>& a);

/// |a - b| / max(|a|, |b|); 0 where both are 0, infinity where one is not finite.
double relative_difference(double a, double b);
/// |a - b| / |b| of two vectors of equal length; infinity where one holds what is not finite.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace espalier::check
