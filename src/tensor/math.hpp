// SPDX-License-Identifier: Apache-2.0
// Elementary functions that vectorise: without calls and without branches, so that a compiler turns
// a loop over them into vector code. The fp64 forms are the library's and serve the tests.
#pragma once

#include <cfloat>
#include <cmath>
#include <type_traits>

#include "tensor/types.hpp"

namespace espalier {

/// The least finite number; std::numeric_limits is for the host alone.
template <class Real>
ESPALIER_FUNCTION constexpr Real lowest_number() {
  if constexpr (std::is_same_v<Real, float>)
    return -FLT_MAX;
  else
    return -DBL_MAX;
}

/// e^x for fp32. Reduces by multiples of ln 2, then the Taylor polynomial of degree 7.
/// Errors  relative error below 2 ulp; 0 below -87.3, infinity above 88.7
ESPALIER_FUNCTION float exp_value(float x) {
  const float clamped = x < -87.3f ? -87.3f : (x > 88.72f ? 88.72f : x);
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
  const float shifted = clamped * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  float r = clamped - n * 0.693145752f;  // the high part of ln 2 has 12 trailing zero bits
  r = r - n * 1.42860677e-6f;
  float p = 1.98412698e-4f;
  p = p * r + 1.38888889e-3f;
  p = p * r + 8.33333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // 2^n in two factors: n = 128 is not a normal exponent.
  const int32_t whole = static_cast<int32_t>(float_bits(shifted)) - 0x4b400000;
  const int32_t half = whole >> 1;
  const float a = bits_float(static_cast<uint32_t>(half + 127) << 23);
  const float b = bits_float(static_cast<uint32_t>(whole - half + 127) << 23);
  const float y = p * a * b;
  const float low = x < -87.3f ? 0.0f : y;
  const float high = x > 88.72f ? bits_float(0x7f800000u) : low;
  return x != x ? x : high;
}
ESPALIER_FUNCTION double exp_value(double x) {
  return std::exp(x);
}

/// 1 / (1 + e^-x)
template <class Real>
ESPALIER_FUNCTION Real sigmoid(Real x) {
  return Real(1) / (Real(1) + exp_value(-x));
}

/// The distribution function of the standard normal law, Phi(x) = erfc(-x / sqrt 2) / 2.
/// fp32: with z = |x| / sqrt 2 and t = 1 / (1 + z / 2), erfc z = t exp(-z^2 + P(t)), P of degree 9.
/// Errors  fp32: absolute error of Phi below 2.5e-7; relative below 1e-6 for x > -2 and below 2e-5
///         down to x = -12.9, where Phi leaves the normal numbers
/// Source  Press, Teukolsky, Vetterling, Flannery, Numerical Recipes, 2nd ed., section 6.2 (P)
ESPALIER_FUNCTION float normal_cdf(float x) {
  const float z = (x < 0.0f ? -x : x) * 0.707106781f;
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const float tail = 0.5f * t * exp_value(p - z * z);
  return x < 0.0f ? tail : 1.0f - tail;
}
ESPALIER_FUNCTION double normal_cdf(double x) {
  return 0.5 * std::erfc(-x * 0.70710678118654752440);
}

/// The density of the standard normal law.
template <class Real>
ESPALIER_FUNCTION Real normal_density(Real x) {
  return Real(0.39894228040143267794) * exp_value(Real(-0.5) * x * x);
}

}  // namespace espalier
