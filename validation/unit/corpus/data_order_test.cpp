// SPDX-License-Identifier: Apache-2.0
// The sample order is a bijection for every n, and differs by epoch and seed.
#include "corpus/data_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <set>
#include <vector>

#include "core/error.hpp"

namespace espalier {
namespace {

bool is_bijection(const DataOrder& order, int64_t epoch) {
  std::vector<bool> seen(static_cast<size_t>(order.size()));
  for (int64_t i = 0; i < order.size(); ++i) {
    const int64_t to = order.permute(epoch, i);
    if (to < 0 || to >= order.size() || seen[static_cast<size_t>(to)]) return false;
    seen[static_cast<size_t>(to)] = true;
  }
  return true;
}

TEST(DataOrder, IsABijectionForEverySmallSize) {
  for (int64_t n = 1; n <= 300; ++n) {
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_TRUE(is_bijection(DataOrder(static_cast<uint64_t>(n) * 17, n), epoch)) << n;
    }
  }
}

TEST(DataOrder, IsABijectionForLargeSizes) {
  for (const int64_t n : {997, 1023, 1024, 1025, 4095, 4096, 4097, 7919, 16384, 16385, 65535, 65536,
                          65537, 99991, 100000}) {
    EXPECT_TRUE(is_bijection(DataOrder(5, n), 2)) << n;
  }
}

TEST(DataOrder, PositionsRunThroughEpochs) {
  const DataOrder order(3, 101);
  for (int64_t p = 0; p < 505; ++p) {
    EXPECT_EQ(order(p), order.permute(p / 101, p % 101));
    EXPECT_EQ(order.epoch(p), p / 101);
  }
}

TEST(DataOrder, DiffersByEpochAndSeedAndFromPlainOrder) {
  constexpr int64_t n = 10000;
  const DataOrder a(1, n), b(2, n);
  int64_t same_epoch = 0, same_seed = 0, plain = 0, neighbours = 0;
  for (int64_t i = 0; i < n; ++i) {
    same_epoch += a.permute(0, i) == a.permute(1, i);
    same_seed += a.permute(0, i) == b.permute(0, i);
    plain += a.permute(0, i) == i;
    neighbours += i > 0 && a.permute(0, i) == a.permute(0, i - 1) + 1;
  }
  // Each count is about Poisson with mean 1 for random permutations; 12 has probability 1e-10.
  EXPECT_LT(same_epoch, 12);
  EXPECT_LT(same_seed, 12);
  EXPECT_LT(plain, 12);
  EXPECT_LT(neighbours, 12);
}

// All orders of three samples should turn up about equally often over epochs.
TEST(DataOrder, SmallOrdersAreUniform) {
  const DataOrder order(11, 3);
  std::vector<int> counts(27);
  constexpr int kEpochs = 6000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    counts[static_cast<size_t>(order.permute(epoch, 0) * 9 + order.permute(epoch, 1) * 3 +
                               order.permute(epoch, 2))] += 1;
  }
  int kinds = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++kinds;
    EXPECT_NEAR(count, kEpochs / 6, 5 * std::sqrt(kEpochs / 6.0));
  }
  EXPECT_EQ(kinds, 6);
}

TEST(DataOrder, HugeSizesInConstantTime) {
  constexpr int64_t n = 1000000000000;
  const DataOrder order(9, n);
  std::set<int64_t> seen;
  double mean = 0.0;
  for (int64_t i = 0; i < 20000; ++i) {
    const int64_t to = order(7 * n + n - 1 - i);
    ASSERT_TRUE(to >= 0 && to < n);
    seen.insert(to);
    mean += static_cast<double>(to) / 20000.0;
  }
  EXPECT_EQ(seen.size(), 20000u);
  EXPECT_NEAR(mean / n, 0.5, 5 * std::sqrt(1.0 / 12 / 20000));

  // A position costs about a microsecond whatever n is.
  const auto seconds = [](int64_t size) {
    const DataOrder timed(1, size);
    const std::clock_t begin = std::clock();  // processor time: other programs do not count
    int64_t sum = 0;
    for (int64_t i = 0; i < 20000; ++i) sum += timed(i + size);
    EXPECT_GT(sum, 0);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  EXPECT_LT(seconds(int64_t{1} << 61), 20 * seconds(1000) + 0.05);
}

TEST(DataOrder, RefusesWhatIsOutside) {
  EXPECT_THROW(DataOrder(1, 0), InternalError);
  const DataOrder order(1, 5);
  EXPECT_THROW(order(-1), InternalError);
  EXPECT_THROW(order.permute(0, 5), InternalError);
}

// The order is part of what a run's seed means: a change of these numbers changes every run.
TEST(DataOrder, StaysAsItIs) {
  const DataOrder order(1, 10);
  std::vector<int64_t> first;
  for (int64_t i = 0; i < 10; ++i) first.push_back(order(i));
  EXPECT_EQ(first, (std::vector<int64_t>{9, 2, 3, 7, 5, 0, 8, 4, 6, 1}));
}

}  // namespace
}  // namespace espalier
