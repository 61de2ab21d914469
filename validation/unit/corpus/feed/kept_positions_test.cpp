// SPDX-License-Identifier: Apache-2.0
// Counting round skipped ranges against a walk over all positions.
#include "corpus/feed/kept_positions.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

bool is_skipped(const std::vector<IntegerRange>& ranges, int64_t p) {
  for (const IntegerRange& range : ranges)
    if (p >= range[0] && p < range[1]) return true;
  return false;
}

TEST(KeptPositions, EqualsAWalk) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<IntegerRange> ranges;
    int64_t at = 0;
    const auto random = [&](uint64_t i, uint64_t n) {
      return static_cast<int64_t>(random_bits(seed, 3, i) % n);
    };
    for (uint64_t i = 0; i < seed % 7; ++i) {
      at += random(2 * i, 6);  // 0: right behind the one before
      ranges.push_back({at, at + 1 + random(2 * i + 1, 9)});
      at = ranges.back()[1];
    }
    const KeptPositions kept(ranges);
    for (int64_t from = 0; from < 60; ++from) {
      int64_t p = from;
      for (int64_t count = 0; count < 30; ++count, ++p) {
        while (is_skipped(ranges, p)) ++p;
        ASSERT_EQ(kept.after(from, count), p) << seed << " " << from << " " << count;
      }
      const auto jumped = kept.skipped_between(from, from + 13);
      std::vector<IntegerRange> expected;
      for (int64_t q = from; q < from + 13; ++q) {
        if (!is_skipped(ranges, q)) continue;
        EXPECT_TRUE(is_skipped(jumped, q));
      }
      for (const IntegerRange& range : jumped) {
        EXPECT_GE(range[0], from);
        EXPECT_LE(range[1], from + 13);
        EXPECT_LT(range[0], range[1]);
        for (int64_t q = range[0]; q < range[1]; ++q) EXPECT_TRUE(is_skipped(ranges, q));
      }
    }
  }
}

TEST(KeptPositions, GoesBackAndFar) {
  const KeptPositions none, some({{10, 20}, {1000, 2000}});
  EXPECT_EQ(none.after(1000000000000000, 7), 1000000000000007);
  EXPECT_EQ(some.after(0, 1000000000000000), 1000000000001010);
  EXPECT_EQ(some.after(2000, -1), 999);
  EXPECT_EQ(some.after(15, 0), 20);
  EXPECT_EQ(some.after(25, -6), 9);
  EXPECT_LT(some.after(3, -4), 0);
  EXPECT_THROW(KeptPositions({{5, 9}, {8, 10}}), InternalError);
  EXPECT_THROW(KeptPositions({{5, 5}}), InternalError);
}

}  // namespace
}  // namespace espalier
