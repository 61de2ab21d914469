// SPDX-License-Identifier: Apache-2.0
// What the tests of the tuned norms share.
#pragma once

#include <vector>

#include "cuda/norm.hpp"
#include "gpu/device_rows.hpp"

namespace espalier::gpu_test {

template <class S, class T>
cuda::NormRows<S> rows_at(T* data, const RowShape& s) {
  return {data + s.start, s.rows, s.columns, s.groups, s.outer, s.inner};
}

/// Random rows with means and spreads of their own.
template <class T>
std::vector<T> draw_rows(Random& random, int64_t rows, int64_t columns) {
  std::vector<T> x;
  for (int64_t r = 0; r < rows; ++r) {
    const double middle = random.uniform(-2, 2), width = random.uniform(0.3, 4);
    for (int64_t j = 0; j < columns; ++j)
      x.push_back(T(static_cast<float>(middle + random.uniform(-width, width))));
  }
  return x;
}

struct Moments {
  double mean = 0, rstd = 0;
};
template <class T>
Moments moments(const T* x, int64_t n, bool centred, double eps) {
  Moments m;
  if (centred) {
    for (int64_t j = 0; j < n; ++j) m.mean += static_cast<double>(x[j]);
    m.mean /= static_cast<double>(n);
  }
  double square = 0;
  for (int64_t j = 0; j < n; ++j) {
    const double d = static_cast<double>(x[j]) - m.mean;
    square += d * d;
  }
  m.rstd = 1 / std::sqrt(square / static_cast<double>(n) + eps);
  return m;
}

}  // namespace espalier::gpu_test
