// SPDX-License-Identifier: Apache-2.0
#include "core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace espalier {
namespace {

std::vector<uint32_t> words(const Philox4& r) {
  return {r.v[0], r.v[1], r.v[2], r.v[3]};
}

// Known answers of philox4x32-10 from the Random123 distribution (kat_vectors): counter, key,
// result. A word of the counter is 32 bits, the first the lowest of counter_low; likewise the key.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(words(philox(0, 0, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0})),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  EXPECT_EQ(words(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryArgumentMatters) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed)
    for (uint64_t purpose = 0; purpose < 10; ++purpose)
      for (uint64_t index = 0; index < 100; ++index) seen.insert(random_bits(seed, purpose, index));
  EXPECT_EQ(seen.size(), 10'000u);
}

// FNV-1a, 64 bits: the test vectors of the IETF draft (Fowler, Noll, Vo, Eastlake).
TEST(HashName, KnownAnswers) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8ull);
  static_assert(hash_name("a") == 0xaf63dc4c8601ec8cull, "usable at compile time");
  EXPECT_NE(hash_name("layers.1.mlp.up.weight"), hash_name("layers.2.mlp.up.weight"));
}

TEST(RandomUniform, LiesInTheUnitIntervalAndFillsIt) {
  constexpr int kCount = 200'000;
  double sum = 0.0, square = 0.0;
  std::vector<int> bins(16, 0);
  for (int i = 0; i < kCount; ++i) {
    const double x = random_uniform(7, 3, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    square += x * x;
    ++bins[static_cast<int>(x * 16)];
  }
  // Six standard errors of each estimate.
  EXPECT_NEAR(sum / kCount, 0.5, 6 * std::sqrt(1.0 / 12 / kCount));
  EXPECT_NEAR(square / kCount, 1.0 / 3, 6 * std::sqrt(4.0 / 45 / kCount));
  for (const int n : bins) EXPECT_NEAR(n, kCount / 16.0, 6 * std::sqrt(kCount / 16.0));
}

TEST(RandomNormal, HasTheMomentsOfTheStandardNormalLaw) {
  constexpr int kCount = 400'000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  int beyond_two = 0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(5, 11, i);
    ASSERT_TRUE(std::isfinite(x));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
    beyond_two += std::abs(x) > 2.0;
  }
  // Six standard errors; the variances of the powers are 1, 2, 15 and 96.
  EXPECT_NEAR(m1 / kCount, 0.0, 6 * std::sqrt(1.0 / kCount));
  EXPECT_NEAR(m2 / kCount, 1.0, 6 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m3 / kCount, 0.0, 6 * std::sqrt(15.0 / kCount));
  EXPECT_NEAR(m4 / kCount, 3.0, 6 * std::sqrt(96.0 / kCount));
  const double p = std::erfc(std::sqrt(2.0));
  EXPECT_NEAR(beyond_two / double{kCount}, p, 6 * std::sqrt(p * (1 - p) / kCount));
}

TEST(RandomNormal, StreamsAndNeighboursAreUncorrelated) {
  constexpr int kCount = 100'000;
  double neighbours = 0.0, purposes = 0.0, seeds = 0.0;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(1, 1, i);
    neighbours += x * random_normal(1, 1, i + 1);
    purposes += x * random_normal(1, 2, i);
    seeds += x * random_normal(2, 1, i);
  }
  const double bound = 6 * std::sqrt(double{kCount});
  EXPECT_LT(std::abs(neighbours), bound);
  EXPECT_LT(std::abs(purposes), bound);
  EXPECT_LT(std::abs(seeds), bound);
}

// The value at an index does not depend on what was asked before.
TEST(RandomNormal, IsAPureFunction) {
  const double late = random_normal(3, 4, 1'000'000'007);
  for (int i = 0; i < 10; ++i) random_normal(3, 4, i);
  EXPECT_EQ(random_normal(3, 4, 1'000'000'007), late);
}

}  // namespace
}  // namespace espalier
