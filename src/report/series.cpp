// SPDX-License-Identifier: Apache-2.0
// Smoothing, buckets, medians.
#include "report/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier {
namespace {
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
}

Series smooth(const Series& values, double span) {
  const double keep = std::exp(-1.0 / std::max(span, 1e-9));
  const size_t n = values.size();
  Series sums(n, 0.0), weights(n, 0.0);
  double sum = 0.0, weight = 0.0;
  const auto add = [&](size_t i) {
    sums[i] += sum;
    weights[i] += weight;
    if (!std::isfinite(values[i])) return;
    sum += values[i];
    weight += 1.0;
  };
  for (size_t i = 0; i < n; ++i, sum *= keep, weight *= keep) add(i);  // what is before i
  sum = weight = 0.0;
  for (size_t i = n; i-- > 0; sum *= keep, weight *= keep) add(i);  // what is after i
  Series out(n, kNone);
  for (size_t i = 0; i < n; ++i) {
    const bool own = std::isfinite(values[i]);
    const double total = weights[i] + (own ? 1.0 : 0.0);
    if (total > 0) out[i] = (sums[i] + (own ? values[i] : 0.0)) / total;
  }
  return out;
}

std::vector<size_t> bucket_edges(size_t count, size_t most) {
  const size_t buckets = std::min(count, std::max<size_t>(most, 1));
  std::vector<size_t> edges(buckets + 1, 0);
  for (size_t i = 1; i <= buckets; ++i) edges[i] = i * count / buckets;
  return edges;
}

Envelope envelope(const Series& values, const std::vector<size_t>& edges) {
  Envelope out;
  for (size_t b = 0; b + 1 < edges.size(); ++b) {
    double sum = 0.0, low = kNone, high = kNone;
    int64_t finite = 0;
    for (size_t i = edges[b]; i < edges[b + 1]; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += values[i];
      low = finite == 0 ? values[i] : std::min(low, values[i]);
      high = finite == 0 ? values[i] : std::max(high, values[i]);
      ++finite;
    }
    out.mean.push_back(finite == 0 ? kNone : sum / static_cast<double>(finite));
    out.min.push_back(low);
    out.max.push_back(high);
  }
  return out;
}

double median(Series values) {
  values.erase(
      std::remove_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); }),
      values.end());
  if (values.empty()) return kNone;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

}  // namespace espalier
