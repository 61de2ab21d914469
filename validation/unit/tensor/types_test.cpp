// SPDX-License-Identifier: Apache-2.0
// The 16-bit element types, over all their values.
#include "tensor/types.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace espalier {
namespace {

template <class T>
T from_bits(uint32_t bits) {
  T x;
  x.bits = static_cast<uint16_t>(bits);
  return x;
}

/// Number of bits of the fraction; the infinity's pattern; the value one past the greatest number.
template <class T>
struct Format;
template <>
struct Format<bf16> {
  static constexpr int kFraction = 7;
  static constexpr int kBias = 127;
  static constexpr uint32_t kInfinity = 0x7f80;
  static constexpr double kOverflow = 0x1.0p128;
};
template <>
struct Format<fp16> {
  static constexpr int kFraction = 10;
  static constexpr int kBias = 15;
  static constexpr uint32_t kInfinity = 0x7c00;
  static constexpr double kOverflow = 65536.0;
};

/// The value of a finite positive pattern, by the definition of IEEE 754's binary formats.
template <class T>
double defined_value(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> Format<T>::kFraction);
  const int fraction = static_cast<int>(bits & ((1u << Format<T>::kFraction) - 1));
  const int unit = 1 - Format<T>::kBias - Format<T>::kFraction;
  return exponent == 0 ? std::ldexp(fraction, unit)
                       : std::ldexp((1 << Format<T>::kFraction) + fraction, unit + exponent - 1);
}

/// Values of the patterns 0, 1, 2, ... up to the infinity's, where overflow begins.
template <class T>
const std::vector<double>& all_values() {
  static const std::vector<double> values = [] {
    std::vector<double> v;
    for (uint32_t bits = 0; bits < Format<T>::kInfinity; ++bits)
      v.push_back(defined_value<T>(bits));
    v.push_back(Format<T>::kOverflow);
    return v;
  }();
  return values;
}

/// Nearest pattern to x, ties to the even one; x is not NaN.
template <class T>
uint32_t reference_round(float x) {
  const auto& values = all_values<T>();
  const uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
  const double magnitude = std::abs(static_cast<double>(x));
  if (magnitude >= values.back()) return Format<T>::kInfinity | sign;
  const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
  const auto low = static_cast<uint32_t>(above - values.begin() - 1);
  const double down = magnitude - values[low], up = *above - magnitude;
  const bool takes_upper = up < down || (up == down && low % 2 == 1);
  return (takes_upper ? low + 1 : low) | sign;
}

template <class T>
class SixteenBits : public testing::Test {};
using Types = testing::Types<bf16, fp16>;
TYPED_TEST_SUITE(SixteenBits, Types, );

TYPED_TEST(SixteenBits, EveryFinitePatternHasItsDefinedValue) {
  for (uint32_t bits = 0; bits < Format<TypeParam>::kInfinity; ++bits) {
    ASSERT_EQ(static_cast<double>(float(from_bits<TypeParam>(bits))),
              defined_value<TypeParam>(bits));
    ASSERT_EQ(static_cast<double>(float(from_bits<TypeParam>(bits | 0x8000u))),
              -defined_value<TypeParam>(bits));
  }
  EXPECT_TRUE(std::signbit(float(from_bits<TypeParam>(0x8000u))));
}

TYPED_TEST(SixteenBits, EveryPatternRoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = from_bits<TypeParam>(bits);
    const TypeParam back(wide);
    const bool is_nan = (bits & 0x7fffu) > Format<TypeParam>::kInfinity;
    ASSERT_EQ(std::isnan(wide), is_nan) << bits;
    if (is_nan)
      ASSERT_TRUE(std::isnan(float(back))) << bits;
    else
      ASSERT_EQ(back.bits, bits);
  }
}

TYPED_TEST(SixteenBits, InfinitiesAndOverflow) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float(TypeParam(infinity)), infinity);
  EXPECT_EQ(float(TypeParam(-infinity)), -infinity);
  // Half a unit beyond the greatest number is the first to overflow, being a tie to even.
  const double greatest = defined_value<TypeParam>(Format<TypeParam>::kInfinity - 1);
  const auto limit = static_cast<float>((greatest + Format<TypeParam>::kOverflow) / 2);
  EXPECT_EQ(float(TypeParam(limit)), infinity);
  EXPECT_EQ(float(TypeParam(-limit)), -infinity);
  EXPECT_EQ(double{float(TypeParam(std::nextafter(limit, 0.0f)))}, greatest);
  EXPECT_EQ(float(TypeParam(std::numeric_limits<float>::max())), infinity);
}

TYPED_TEST(SixteenBits, NanStaysNan) {
  // Quiet and signalling, either sign, with the payload in the low bits only.
  for (const uint32_t bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu})
    EXPECT_TRUE(std::isnan(float(TypeParam(bits_float(bits))))) << bits;
}

// Between any two neighbours: the ends, the middle, the numbers beside these, and quarters.
TYPED_TEST(SixteenBits, RoundsToNearestEvenEverywhere) {
  const auto& values = all_values<TypeParam>();
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const double low = values[i], high = values[i + 1];
    for (const double part : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const auto x = static_cast<float>(low + part * (high - low));
      const float far = std::numeric_limits<float>::max();
      for (const float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, far)}) {
        ASSERT_EQ(TypeParam(y).bits, reference_round<TypeParam>(y)) << y;
        ASSERT_EQ(TypeParam(-y).bits, reference_round<TypeParam>(-y)) << -y;
      }
    }
  }
}

// Every 4093rd number of fp32, subnormal ones included.
TYPED_TEST(SixteenBits, RoundsNumbersOfEverySize) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) {
    const float x = bits_float(static_cast<uint32_t>(bits));
    if (std::isnan(x))
      ASSERT_TRUE(std::isnan(float(TypeParam(x))));
    else
      ASSERT_EQ(TypeParam(x).bits, reference_round<TypeParam>(x)) << x;
  }
}

// The loops over arrays are vector code; they must round as the single conversion does.
TYPED_TEST(SixteenBits, VectorLoopsGiveTheSameBits) {
  constexpr int kCount = 65536 + 37;
  std::vector<float> wide(kCount);
  for (int i = 0; i < kCount; ++i) wide[i] = bits_float(static_cast<uint32_t>(i) * 65521u + 7u);
  std::vector<TypeParam> narrow(kCount);
  for (int i = 0; i < kCount; ++i) narrow[i] = TypeParam(wide[i]);
  std::vector<float> back(kCount);
  for (int i = 0; i < kCount; ++i) back[i] = float(narrow[i]);
  for (int i = 0; i < kCount; ++i) {
    const volatile float one = wide[i];
    ASSERT_EQ(narrow[i].bits, TypeParam(one).bits) << i;
    const volatile uint16_t bits = narrow[i].bits;
    ASSERT_EQ(float_bits(back[i]), float_bits(float(from_bits<TypeParam>(bits)))) << i;
  }
}

}  // namespace
}  // namespace espalier
