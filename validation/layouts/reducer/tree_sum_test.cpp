// SPDX-License-Identifier: Apache-2.0
// The order of the tree, against the sum written out.
#include "parallel/tree_sum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/random.hpp"

namespace espalier {
namespace {

using Leaves = std::vector<std::vector<float>>;

// Magnitudes over seven decades: almost any other order of additions gives other bits.
Leaves random_leaves(int count, int64_t size) {
  Leaves leaves(static_cast<size_t>(count));
  for (int r = 0; r < count; ++r)
    for (int64_t i = 0; i < size; ++i) {
      const auto index = static_cast<uint64_t>(r * size + i);
      const double power = 7.0 * random_uniform(3, hash_name("magnitude"), index);
      leaves[static_cast<size_t>(r)].push_back(
          static_cast<float>(random_normal(3, hash_name("leaf"), index) * std::pow(10.0, power)));
    }
  return leaves;
}

std::vector<float> tree_sum(const Leaves& leaves) {
  std::vector<const float*> pointers;
  for (const auto& leaf : leaves) pointers.push_back(leaf.data());
  std::vector<float> out(leaves[0].size());
  TreeSum<float, float>()(pointers, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

template <class F>
int64_t differing(const Leaves& leaves, const F& expected) {
  const std::vector<float> sums = tree_sum(leaves);
  int64_t count = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const float e = expected(i);
    count += std::memcmp(&sums[i], &e, sizeof e) != 0;
  }
  return count;
}

TEST(TreeSum, AddsNeighboursFirst) {
  const auto check = [](int count, auto&& sum) {
    const Leaves l = random_leaves(count, 5000);
    EXPECT_EQ(differing(l, [&](size_t i) { return sum(l, i); }), 0) << count << " leaves";
  };
  check(1, [](const Leaves& l, size_t i) { return l[0][i]; });
  check(2, [](const Leaves& l, size_t i) { return l[0][i] + l[1][i]; });
  check(3, [](const Leaves& l, size_t i) { return (l[0][i] + l[1][i]) + l[2][i]; });
  check(4, [](const Leaves& l, size_t i) { return (l[0][i] + l[1][i]) + (l[2][i] + l[3][i]); });
  check(5, [](const Leaves& l, size_t i) {
    return ((l[0][i] + l[1][i]) + (l[2][i] + l[3][i])) + l[4][i];
  });
  check(7, [](const Leaves& l, size_t i) {
    return ((l[0][i] + l[1][i]) + (l[2][i] + l[3][i])) + ((l[4][i] + l[5][i]) + l[6][i]);
  });
  check(8, [](const Leaves& l, size_t i) {
    return ((l[0][i] + l[1][i]) + (l[2][i] + l[3][i])) +
           ((l[4][i] + l[5][i]) + (l[6][i] + l[7][i]));
  });
}

// Negative control: the data do tell orders apart.
TEST(TreeSum, DiffersFromARunningSum) {
  const Leaves l = random_leaves(8, 5000);
  const int64_t count = differing(l, [&](size_t i) {
    float sum = 0.0f;
    for (const auto& leaf : l) sum += leaf[i];
    return sum;
  });
  EXPECT_GT(count, 500);
}

TEST(TreeSum, MayOverwriteALeaf) {
  for (const int count : {2, 3, 8})
    for (int target = 0; target < count; ++target) {
      Leaves l = random_leaves(count, 4999);
      const std::vector<float> expected = tree_sum(l);
      std::vector<const float*> pointers;
      for (const auto& leaf : l) pointers.push_back(leaf.data());
      TreeSum<float, float>()(pointers, l[static_cast<size_t>(target)].data(), 4999);
      EXPECT_EQ(l[static_cast<size_t>(target)], expected) << count << " leaves into " << target;
    }
}

}  // namespace
}  // namespace espalier
