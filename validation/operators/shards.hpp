// SPDX-License-Identifier: Apache-2.0
// What the comparisons of shards with the whole share.
#pragma once

#include <cstring>
#include <vector>

#include "array.hpp"

namespace espalier::check {

using Values = std::vector<double>;

template <class T>
Array filled(const Values& values) {
  Array a(ElementTraits<T>::kType, static_cast<int64_t>(values.size()));
  a.fill(values);
  return a;
}

/// Equal with the sign of zeros.
inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// Columns [first, first + count) of rows of `width`.
inline Values columns(const Values& x, int64_t width, int64_t first, int64_t count) {
  Values part;
  for (size_t at = 0; at < x.size(); at += width)
    part.insert(part.end(), x.begin() + at + first, x.begin() + at + first + count);
  return part;
}

}  // namespace espalier::check
