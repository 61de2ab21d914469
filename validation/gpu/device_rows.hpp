// SPDX-License-Identifier: Apache-2.0
// Rows of a test as they may lie in a larger array: unaligned, with gaps, several groups. All that
// is no row is NaN and has to stay so.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "gpu/device_array.hpp"

namespace espalier::gpu_test {

/// Row r starts at element start + (r / groups) * outer + (r % groups) * inner.
struct RowShape {
  int64_t rows = 0, columns = 0;
  int64_t start = 0, groups = 1, outer = 0, inner = 0;

  int64_t first(int64_t r) const { return start + r / groups * outer + r % groups * inner; }
  int64_t size() const { return (rows == 0 ? start : first(rows - 1) + columns) + 11; }
  std::string text() const {
    return fmt::format("[{}, {}] from {}, {} groups, {} and {} apart", rows, columns, start, groups,
                       outer, inner);
  }
};
inline RowShape dense(int64_t rows, int64_t columns, int64_t start = 0) {
  return {rows, columns, start, 1, columns, 0};
}
/// Heads of `width` inside rows of a packed matrix.
inline RowShape heads(int64_t rows, int64_t columns, int64_t groups, int64_t start, int64_t rest) {
  return {rows, columns, start, groups, groups * columns + rest, columns};
}

/// Values [rows, columns] without gaps in the shape's place.
template <class T>
std::vector<T> placed(const RowShape& s, const std::vector<T>& values) {
  std::vector<T> all = poisoned<T>(s.size());
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t j = 0; j < s.columns; ++j)
      all[static_cast<size_t>(s.first(r) + j)] = values[static_cast<size_t>(r * s.columns + j)];
  return all;
}
/// The inverse; notes in `fault` if anything outside the rows has changed.
template <class T>
std::vector<T> taken(const RowShape& s, std::vector<T> all, std::string& fault) {
  std::vector<T> values(static_cast<size_t>(s.rows * s.columns));
  const T poison = poisoned<T>(1)[0];
  for (int64_t r = 0; r < s.rows; ++r)
    for (int64_t j = 0; j < s.columns; ++j) {
      T& element = all[static_cast<size_t>(s.first(r) + j)];
      values[static_cast<size_t>(r * s.columns + j)] = element;
      element = poison;
    }
  for (size_t i = 0; i < all.size() && fault.empty(); ++i)
    if (!same_bits(all[i], poison)) fault = fmt::format("element {} outside the rows changed", i);
  return values;
}

/// Half an ulp of T, relative, and below which T has fewer digits.
template <class T>
constexpr double kRounding = std::is_same_v<T, float>  ? 0x1p-24
                             : std::is_same_v<T, bf16> ? 0x1p-8
                                                       : 0x1p-11;
template <class T>
constexpr double kTiny = std::is_same_v<T, fp16> ? 0x1p-25 : 0x1p-126;

/// Notes the first element of `got` that is further from `want` than rounding to T and `slack`, an
/// absolute bound for each element, allow.
template <class T>
void compare(const std::string& name, const std::vector<T>& got, const std::vector<double>& want,
             const std::vector<double>& slack, std::string& fault) {
  for (size_t i = 0; i < want.size() && fault.empty(); ++i) {
    const double value = static_cast<double>(got[i]);
    const double bound = kRounding<T> * std::abs(want[i]) + slack[i] + kTiny<T>;
    if (!(std::abs(value - want[i]) <= bound))
      fault = fmt::format("{}[{}] is {}, should be {} within {}", name, i, value, want[i], bound);
  }
}
template <class T>
void compare_bits(const std::string& name, const std::vector<T>& got, const std::vector<T>& want,
                  std::string& fault) {
  for (size_t i = 0; i < want.size() && fault.empty(); ++i)
    if (!same_bits(got[i], want[i]))
      fault = fmt::format("{}[{}] is {}, should be {} to the bit", name, i,
                          static_cast<double>(got[i]), static_cast<double>(want[i]));
}

}  // namespace espalier::gpu_test
