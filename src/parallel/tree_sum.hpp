// SPDX-License-Identifier: Apache-2.0
// The sum of several arrays in the fixed binary tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier {

/// Left part of a tree over `count` leaves: the greatest power of two below it. So neighbours are
/// added first, and an odd one is carried up.
inline int64_t left_leaves(int64_t count) {
  int64_t half = 1;
  while (2 * half < count) half *= 2;
  return half;
}

/// Adds arrays of type Wire in Real, block by block so that partial sums stay in the cache.
template <class Real, class Wire>
class TreeSum {
 public:
  /// out [size] = sum of leaves[r] [size] over r. `store` converts a sum to what out holds; out may
  /// be one of the leaves.
  template <class Out>
  void operator()(const std::vector<const Wire*>& leaves, Out* out, int64_t size) {
    const auto count = static_cast<int64_t>(leaves.size());
    if (count == 2) {
      add_pair(leaves[0], leaves[1], out, size);
      return;
    }
    for (int64_t first = 0; first < size; first += kBlock) {
      const int64_t n = size - first < kBlock ? size - first : kBlock;
      add(leaves, 0, count, first, n, 0);
      const Real* sum = level(0);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[first + i] = static_cast<Out>(sum[i]);
    }
  }

 private:
  static constexpr int64_t kBlock = 2048;

  template <class Out>
  static void add_pair(const Wire* a, const Wire* b, Out* out, int64_t size) {
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i)
      out[i] = static_cast<Out>(static_cast<Real>(a[i]) + static_cast<Real>(b[i]));
  }

  // Sum of `count` leaves from `leaf` on, elements [first, first + n), into level(depth).
  void add(const std::vector<const Wire*>& leaves, int64_t leaf, int64_t count, int64_t first,
           int64_t n, int64_t depth) {
    reserve(depth);
    const Wire* a = leaves[static_cast<size_t>(leaf)] + first;
    if (count <= 2) {
      if (count == 2) {
        add_pair(a, leaves[static_cast<size_t>(leaf) + 1] + first, level(depth), n);
      } else {
        Real* out = level(depth);
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Real>(a[i]);
      }
      return;
    }
    const int64_t left = left_leaves(count);
    add(leaves, leaf, left, first, n, depth);
    add(leaves, leaf + left, count - left, first, n, depth + 1);
    Real* sum = level(depth);
    const Real* right = level(depth + 1);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) sum[i] += right[i];
  }

  void reserve(int64_t depth) {
    if (partial_.size() < static_cast<size_t>((depth + 1) * kBlock))
      partial_.resize(static_cast<size_t>((depth + 1) * kBlock));
  }
  Real* level(int64_t depth) {
    return partial_.data() + depth * kBlock;
  }

  std::vector<Real> partial_;
};

}  // namespace espalier
