// SPDX-License-Identifier: Apache-2.0
#include "derivative.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "draw.hpp"

namespace espalier::check {

double extrapolated_to_zero(const std::function<double(double)>& central, double first_step) {
  constexpr int kLevels = 7;
  std::vector<double> before;
  double best = std::numeric_limits<double>::quiet_NaN();
  double best_error = std::numeric_limits<double>::infinity();
  double h = first_step;
  for (int level = 0; level < kLevels; ++level, h /= 2) {
    std::vector<double> row = {central(h)};
    double weight = 1.0;
    for (int order = 1; order <= level; ++order) {
      weight *= 4.0;
      const double finer = row[order - 1];
      const double coarser = before[order - 1];
      row.push_back(finer + (finer - coarser) / (weight - 1.0));
      const double error = std::max(std::abs(row[order] - finer), std::abs(row[order] - coarser));
      if (error < best_error) {
        best_error = error;
        best = row[order];
      }
    }
    // The last digits are rounding: smaller steps only make them worse.
    if (best_error <= 1e-12 * std::abs(best)) break;
    before = row;
  }
  return best;
}

double derivative(const std::function<double(double)>& f, double first_step) {
  return extrapolated_to_zero([&](double h) { return (f(h) - f(-h)) / (2 * h); }, first_step);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double length(const std::vector<double>& a) {
  return std::sqrt(dot(a, a));
}

double relative_difference(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
  const double scale = std::max(std::abs(a), std::abs(b));
  return scale == 0.0 ? 0.0 : std::abs(a - b) / scale;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  std::vector<double> difference(a.size());
  for (size_t i = 0; i < a.size(); ++i) difference[i] = a[i] - b[i];
  const double distance = length(difference), scale = length(b);
  if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
  return distance == 0.0 ? 0.0 : distance / scale;
}

std::vector<int32_t> draw_documents(Draw& draw, int64_t length, int64_t mean_length) {
  std::vector<int32_t> start(length, 0);
  for (int64_t t = 1; t < length; ++t) {
    const bool opens = mean_length > 0 && draw.chance(1.0 / static_cast<double>(mean_length));
    start[t] = opens ? static_cast<int32_t>(t) : start[t - 1];
  }
  return start;
}

}  // namespace espalier::check
