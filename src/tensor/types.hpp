// SPDX-License-Identifier: Apache-2.0
// The 16-bit element types of the project (GCC 12 has no __bf16) and the traits that say in which
// type each element type is accumulated and kept as master copy.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/element_type.hpp"
#include "core/random.hpp"

namespace espalier {

ESPALIER_FUNCTION uint32_t float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
ESPALIER_FUNCTION float bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/// bfloat16: the upper half of an fp32; rounds to nearest even, keeps NaN a NaN.
struct bf16 {
  uint16_t bits;
  bf16() = default;
  ESPALIER_FUNCTION bf16(float x) : bits(round(x)) {}  // NOLINT: conversions are the point
  ESPALIER_FUNCTION operator float() const { return bits_float(uint32_t{bits} << 16); }

  ESPALIER_FUNCTION static uint16_t round(float x) {
    const uint32_t u = float_bits(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    return static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};

/// IEEE binary16; rounds to nearest even, overflows to infinity. Branch-free, so that loops over
/// it vectorise.
struct fp16 {
  uint16_t bits;
  fp16() = default;
  ESPALIER_FUNCTION fp16(float x) : bits(round(x)) {}  // NOLINT: conversions are the point
  ESPALIER_FUNCTION operator float() const {
    const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
    const uint32_t magnitude = bits & 0x7fffu;
    // Shifted into fp32's fields and rescaled by 2^112, normal and subnormal numbers come out
    // right.
    const float scaled = bits_float(magnitude << 13) * 0x1.0p112f;
    const uint32_t special = (magnitude << 13) | 0x7f800000u;  // infinity and NaN
    return bits_float((magnitude >= 0x7c00u ? special : float_bits(scaled)) | sign);
  }

  ESPALIER_FUNCTION static uint16_t round(float x) {
    const uint32_t u = float_bits(x);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Adding 0.5 puts the value of a subnormal result, correctly rounded, in the low mantissa bits.
    const uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t r = magnitude < 0x38800000u ? subnormal : normal;
    if (magnitude >= 0x477ff000u) r = 0x7c00u;
    if (magnitude > 0x7f800000u) r = 0x7e00u;
    return static_cast<uint16_t>(r | sign);
  }
};

/// Acc: gradients, sums, master weights. kType: the tag.
template <class T>
struct ElementTraits;
template <>
struct ElementTraits<float> {
  using Acc = float;
  static constexpr ElementType kType = ElementType::fp32;
};
template <>
struct ElementTraits<double> {
  using Acc = double;
  static constexpr ElementType kType = ElementType::fp64;
};
template <>
struct ElementTraits<bf16> {
  using Acc = float;
  static constexpr ElementType kType = ElementType::bf16;
};
template <>
struct ElementTraits<fp16> {
  using Acc = float;
  static constexpr ElementType kType = ElementType::fp16;
};
template <class T>
using Acc = typename ElementTraits<T>::Acc;

}  // namespace espalier
