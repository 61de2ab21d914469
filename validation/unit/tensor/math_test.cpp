// SPDX-License-Identifier: Apache-2.0
// The elementary functions in fp32 against long double, over the whole range of fp32.
#include "tensor/math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace espalier {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr long double kRootHalf = 0.70710678118654752440084436210485L;

/// Every 1999th number of fp32 and all near the ends of the ranges; NaN left out.
const std::vector<float>& samples() {
  static const std::vector<float> all = [] {
    std::vector<float> x;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1999)
      x.push_back(bits_float(static_cast<uint32_t>(bits)));
    for (const float centre : {0.0f, -87.3f, 88.72f, -88.72f, 87.3f, -103.97f, 1.0f, -1.0f})
      for (int side = -1; side <= 1; side += 2) {
        float y = centre;
        for (int i = 0; i < 2000; ++i, y = std::nextafter(y, side * kInfinity)) x.push_back(y);
      }
    for (float y = -110.0f; y < 95.0f; y += 0x1.0p-10f) x.push_back(y);
    x.erase(std::remove_if(x.begin(), x.end(), [](float y) { return std::isnan(y); }), x.end());
    return x;
  }();
  return all;
}

struct Worst {
  double error = 0.0;
  float at = 0.0f;
  void note(double e, float x) {
    if (!(e <= error)) error = e, at = x;
  }
};

/// |y - exact| in units of the last place of fp32 at `exact`.
double ulps(float y, long double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent, -125) - 24);
  return static_cast<double>(std::abs(y - exact) / unit);
}

TEST(ExpValue, IsWithinTwoUlpsWhereItIsNormal) {
  Worst worst;
  for (const float x : samples()) {
    if (x < -87.3f || x > 88.72f) continue;
    worst.note(ulps(exp_value(x), std::exp(static_cast<long double>(x))), x);
  }
  EXPECT_LT(worst.error, 2.0) << "at " << worst.at;
  RecordProperty("worst_ulps", std::to_string(worst.error));
}

TEST(ExpValue, IsZeroBelowAndInfiniteAbove) {
  for (const float x : samples()) {
    if (x < -87.3f) {
      ASSERT_EQ(exp_value(x), 0.0f) << x;
    }
    if (x > 88.72f) {
      ASSERT_EQ(exp_value(x), kInfinity) << x;
    }
  }
  EXPECT_EQ(exp_value(-kInfinity), 0.0f);
  EXPECT_EQ(exp_value(kInfinity), kInfinity);
  EXPECT_EQ(exp_value(0.0f), 1.0f);
  EXPECT_EQ(exp_value(-0.0f), 1.0f);
  EXPECT_EQ(exp_value(std::numeric_limits<float>::denorm_min()), 1.0f);
}

TEST(ExpValue, PassesNanThrough) {
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7fffffffu, 0xffffffffu}) {
    EXPECT_TRUE(std::isnan(exp_value(bits_float(bits))));
    EXPECT_TRUE(std::isnan(sigmoid(bits_float(bits))));
    EXPECT_TRUE(std::isnan(normal_cdf(bits_float(bits))));
    EXPECT_TRUE(std::isnan(normal_density(bits_float(bits))));
  }
}

// The argument's rounding is the only loss in 1 / (1 + e^-x); below -87.3 its exponential is near
// the end of fp32, and the result subnormal or 0.
TEST(Sigmoid, IsWithinThreeUlps) {
  Worst worst;
  for (const float x : samples()) {
    const long double exact = 1.0L / (1.0L + std::exp(-static_cast<long double>(x)));
    if (x < -87.0f)
      ASSERT_LT(std::abs(sigmoid(x) - exact), 1.3e-38L) << x;
    else
      worst.note(ulps(sigmoid(x), exact), x);
  }
  EXPECT_LT(worst.error, 3.0) << "at " << worst.at;
  EXPECT_EQ(sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  RecordProperty("worst_ulps", std::to_string(worst.error));
}

TEST(NormalCdf, AbsoluteAndRelativeErrors) {
  Worst absolute, middle, tail;
  for (const float x : samples()) {
    const long double exact = 0.5L * std::erfc(-static_cast<long double>(x) * kRootHalf);
    const auto error = static_cast<double>(std::abs(normal_cdf(x) - exact));
    absolute.note(error, x);
    if (x > -2.0f) middle.note(error / static_cast<double>(exact), x);
    // The exponent -x^2 / 2, up to 83, is rounded; Phi(-12.9) is near the least normal number.
    if (x <= -2.0f && x > -12.9f) tail.note(error / static_cast<double>(exact), x);
    if (x < -14.3f) {
      ASSERT_EQ(normal_cdf(x), 0.0f) << x;
    }
  }
  EXPECT_LT(absolute.error, 2.5e-7) << "at " << absolute.at;
  EXPECT_LT(middle.error, 1e-6) << "at " << middle.at;
  EXPECT_LT(tail.error, 2e-5) << "at " << tail.at;
  EXPECT_EQ(normal_cdf(kInfinity), 1.0f);
  EXPECT_EQ(normal_cdf(-kInfinity), 0.0f);
  RecordProperty("absolute", std::to_string(absolute.error * 1e9));
}

TEST(NormalDensity, FollowsItsFormula) {
  for (float x = -12.0f; x < 12.0f; x += 0x1.0p-8f) {
    const long double y = x;
    const long double exact = 0.39894228040143267793994605993438L * std::exp(-0.5L * y * y);
    // Half an ulp of x^2 / 2, up to 72, is an absolute error of the exponent.
    ASSERT_NEAR(static_cast<double>(normal_density(x) / exact), 1.0, 3e-7 + 6e-8 * 72) << x;
  }
}

TEST(DoubleForms, AreTheLibrarys) {
  for (double x = -30.0; x < 30.0; x += 0.37) {
    EXPECT_EQ(exp_value(x), std::exp(x));
    EXPECT_NEAR(sigmoid(x), 1.0 / (1.0 + std::exp(-x)), 1e-16);
    EXPECT_NEAR(normal_cdf(x), 0.5 * (1.0 + std::erf(x / std::sqrt(2.0))), 1e-15);
  }
}

// A compiler turns the loop into vector code and a remainder; both must round as one call does.
TEST(Functions, VectorLoopsGiveTheBitsOfSingleCalls) {
  const auto& x = samples();
  for (const size_t n : {size_t{1}, size_t{7}, size_t{33}, x.size()}) {
    std::vector<float> e(n), s(n), c(n);
    const float* source = x.data() + (x.size() - n);
    for (size_t i = 0; i < n; ++i) e[i] = exp_value(source[i]);
    for (size_t i = 0; i < n; ++i) s[i] = sigmoid(source[i]);
    for (size_t i = 0; i < n; ++i) c[i] = normal_cdf(source[i]);
    for (size_t i = 0; i < n; ++i) {
      const volatile float one = source[i];
      ASSERT_EQ(float_bits(e[i]), float_bits(exp_value(float{one}))) << source[i];
      ASSERT_EQ(float_bits(s[i]), float_bits(sigmoid(float{one}))) << source[i];
      ASSERT_EQ(float_bits(c[i]), float_bits(normal_cdf(float{one}))) << source[i];
    }
  }
}

}  // namespace
}  // namespace espalier
