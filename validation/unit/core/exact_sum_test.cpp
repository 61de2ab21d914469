// SPDX-License-Identifier: Apache-2.0
// Exact sums: against integer and long double arithmetic, at the ends of the range, and the same
// bits in every order and grouping.
#include "core/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/random.hpp"

namespace espalier {
namespace {

constexpr double kLeast = std::numeric_limits<double>::denorm_min();
constexpr double kMost = std::numeric_limits<double>::max();

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  for (const double x : values) sum.add(x);
  return sum;
}

// Any bits that are a finite number: all signs and exponents, subnormals too.
double any_double(uint64_t index) {
  uint64_t bits = random_bits(11, hash_name("double"), index);
  if (((bits >> 52) & 0x7ffu) == 0x7ffu) bits ^= uint64_t{1} << 62;
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

std::vector<double> any_doubles(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(any_double(static_cast<uint64_t>(i)));
  return values;
}

bool equal_words(ExactSum a, ExactSum b) {
  return std::memcmp(a.words(), b.words(), sizeof(int64_t) * ExactSum::kWords) == 0;
}

TEST(ExactSum, OneValueComesBack) {
  EXPECT_EQ(ExactSum().value(), 0.0);
  for (const double x : {0.0, 1.0, -1.0, 0.1, kLeast, -kLeast, 3 * kLeast, kMost, -kMost,
                         std::numeric_limits<double>::min(), 0x1.fffffffffffffp-1022})
    EXPECT_EQ(sum_of({x}).value(), x);
  for (const double x : any_doubles(20000)) ASSERT_EQ(sum_of({x}).value(), x);
}

TEST(ExactSum, TwoValuesRoundAsTheProcessorDoes) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const double a = any_double(2 * i);
    // Near enough for the mantissas to meet, and far enough for every case of rounding.
    const int far = static_cast<int>(random_bits(11, 3, i) % 120) - 60;
    const double b = std::ldexp(any_double(2 * i + 1) < 0 ? -0.7 * a : 1.3 * a, far);
    if (!std::isfinite(b)) continue;
    ASSERT_EQ(sum_of({a, b}).value(), a + b) << a << " + " << b;
  }
}

TEST(ExactSum, TiesGoToEven) {
  const double ulp = 0x1p-52;
  EXPECT_EQ(sum_of({1.0, ulp / 2}).value(), 1.0);
  EXPECT_EQ(sum_of({1.0 + ulp, ulp / 2}).value(), 1.0 + 2 * ulp);
  EXPECT_EQ(sum_of({1.0, ulp / 2, kLeast}).value(), 1.0 + ulp);  // not a tie, by 2^-1074
  EXPECT_EQ(sum_of({1.0, ulp / 2, -kLeast}).value(), 1.0);
  EXPECT_EQ(sum_of({-1.0, -ulp / 2, -kLeast}).value(), -1.0 - ulp);
  EXPECT_EQ(sum_of({2.0 - ulp, ulp / 2}).value(), 2.0);  // the mantissa grows by a bit
}

TEST(ExactSum, IsIntegerArithmetic) {
  ExactSum sum;
  __extension__ __int128 whole = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const auto n = static_cast<int64_t>(random_bits(12, 1, i)) >> (11 + i % 40);
    whole += n;
    sum.add(std::ldexp(static_cast<double>(n), -30));
  }
  EXPECT_EQ(sum.value(), std::ldexp(static_cast<double>(whole), -30));
}

TEST(ExactSum, AgreesWithLongDoubleWherePositive) {
  ExactSum sum;
  long double plain = 0.0L;
  for (uint64_t i = 0; i < 100000; ++i) {
    const double x = std::exp(10.0 * random_uniform(13, 1, i));
    sum.add(x);
    plain += x;
  }
  // 1e5 roundings of 2^-64 each, and one of 2^-53
  EXPECT_NEAR(sum.value(), static_cast<double>(plain), 2e-14 * static_cast<double>(plain));
}

TEST(ExactSum, CancelsWithoutARest) {
  std::vector<double> values = any_doubles(5000);
  for (size_t i = 0; i < 5000; ++i) values.push_back(-values[(i * 7 + 3) % 5000]);
  EXPECT_EQ(sum_of(values).value(), 0.0);
  values.push_back(kLeast);
  EXPECT_EQ(sum_of(values).value(), kLeast);
  EXPECT_EQ(sum_of({1e300, 1.0, -1e300}).value(), 1.0);
  EXPECT_EQ(sum_of({kMost, kMost, -kMost}).value(), kMost);  // beyond the doubles on the way
}

TEST(ExactSum, OverflowsOnlyInTheEnd) {
  EXPECT_EQ(sum_of({kMost, kMost}).value(), HUGE_VAL);
  EXPECT_EQ(sum_of({-kMost, -kMost}).value(), -HUGE_VAL);
  const double half_ulp = std::ldexp(1.0, 970);
  EXPECT_EQ(sum_of({kMost, half_ulp}).value(), HUGE_VAL);  // a tie, and the even one is 2^1024
  EXPECT_EQ(sum_of({kMost, half_ulp, -kLeast}).value(), kMost);
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  const std::vector<double> values = any_doubles(6000);
  const ExactSum expected = sum_of(values);
  double plain = 0.0, backwards = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    plain += 1e-300 * values[i];
    backwards += 1e-300 * values[values.size() - 1 - i];
  }
  EXPECT_NE(plain, backwards);  // negative control: doubles do depend on it
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<double> shuffled = values;
    for (size_t i = shuffled.size() - 1; i > 0; --i)
      std::swap(shuffled[i], shuffled[random_bits(14, round, i) % (i + 1)]);
    const size_t groups = 1 + random_bits(15, round, 0) % 9;
    std::vector<ExactSum> parts(groups);
    for (size_t i = 0; i < shuffled.size(); ++i)
      parts[random_bits(16, round, i) % groups].add(shuffled[i]);
    ExactSum by_add, by_words;
    for (ExactSum& part : parts) {
      by_add.add(part);
      for (int64_t w = 0; w < ExactSum::kWords; ++w) by_words.words()[w] += part.words()[w];
    }
    EXPECT_TRUE(equal_words(by_add, expected));
    EXPECT_TRUE(equal_words(by_words, expected));
    EXPECT_EQ(by_words.value(), expected.value());
  }
}

// Each addition of the greatest digits changes a word by nearly 2^33; carries are passed on after
// 2^29 of them, below 2^62. Doubling a sum reaches counts that no loop could: after 100 doublings
// of 1000 values the sum is 2^100 times as large.
TEST(ExactSum, CarriesTravelUp) {
  const double full = 0x1.fffffffffffffp0;
  for (const double sign : {1.0, -1.0}) {
    ExactSum sum;
    for (int i = 0; i < 1000; ++i) sum.add(sign * full);
    for (int i = 0; i < 100; ++i) sum.add(ExactSum(sum));
    EXPECT_EQ(sum.value(), std::ldexp(1000.0 * sign * full, 100));
  }
}

TEST(ExactSum, CountsWhatIsNotFinite) {
  ExactSum sum = sum_of({1.0, HUGE_VAL, -HUGE_VAL, std::nan(""), 2.0});
  EXPECT_EQ(sum.not_finite(), 3);
  EXPECT_TRUE(std::isnan(sum.value()));
  ExactSum other;
  other.add(sum);
  EXPECT_EQ(other.not_finite(), 3);
  EXPECT_EQ(sum.words()[ExactSum::kWords - 1], 3);
}

}  // namespace
}  // namespace espalier
