// SPDX-License-Identifier: Apache-2.0
// Deals of sequences: each once, and loads alike.
#include "corpus/feed/balance.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

using Numbers = std::vector<int64_t>;

TEST(Balance, DealsLongestFirst) {
  EXPECT_EQ(deal_by_work({9, 1, 8, 2}, 2), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(deal_by_work({9, 8, 1, 2}, 2), (Numbers{0, 2, 1, 3}));
  EXPECT_EQ(deal_by_work({1, 1, 1, 1}, 2), (Numbers{0, 2, 1, 3}));  // ties by place
  EXPECT_EQ(deal_by_work({5, 3, 7}, 3), (Numbers{0, 1, 2}));
  EXPECT_EQ(deal_by_work({5, 3, 7}, 1), (Numbers{2, 0, 1}));
  EXPECT_TRUE(deal_by_work({}, 3).empty());
  EXPECT_THROW(deal_by_work({1, 2, 3}, 2), InternalError);
  EXPECT_DOUBLE_EQ(load_imbalance({9, 1, 8, 2}, {0, 1, 2, 3}, 2), 1.0);
  EXPECT_DOUBLE_EQ(load_imbalance({9, 8, 1, 2}, {0, 1, 2, 3}, 2), 1.7);
  EXPECT_DOUBLE_EQ(load_imbalance({0, 0}, {0, 1}, 1), 1.0);
}

TEST(Balance, EvensSkewedWork) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Numbers work, plain;
    for (uint64_t i = 0; i < 64; ++i)
      work.push_back(static_cast<int64_t>(1000.0 / (1.05 - random_uniform(seed, 2, i))));
    plain.resize(work.size());
    std::iota(plain.begin(), plain.end(), 0);
    for (const int64_t size : {2, 4, 8}) {
      const Numbers order = deal_by_work(work, size);
      Numbers sorted = order;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, plain);
      const double before = load_imbalance(work, plain, size);
      const double after = load_imbalance(work, order, size);
      EXPECT_LE(after, before);
      if (size == 8) {
        EXPECT_LT(after - 1.0, 0.5 * (before - 1.0)) << seed;
      }
    }
  }
}

TEST(Balance, MakesADealOnce) {
  std::atomic<int> made{0};
  StepDeals deals([&](int64_t step) {
    ++made;
    if (step == 3 && made < 3) throw DataError("damaged");
    return Numbers{step};
  });
  EXPECT_THROW(deals.of(3), DataError);
  EXPECT_THROW(deals.of(3), DataError);
  EXPECT_EQ(deals.of(3)->front(), 3);
  made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int64_t step = 10; step < 40; ++step) EXPECT_EQ(deals.of(step)->front(), step);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 30);
  const auto kept = deals.of(10);
  for (int64_t step = 100; step < 300; ++step) deals.of(step);
  EXPECT_EQ(kept->front(), 10);  // outlives its place among the recent ones
}

}  // namespace
}  // namespace espalier
