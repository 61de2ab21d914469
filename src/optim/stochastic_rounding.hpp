// SPDX-License-Identifier: Apache-2.0
// Rounding fp32 to bf16 up or down at random, so that the mean is the value: an update far below an
// ulp of its weight is then made now and then, where rounding to nearest would always lose it.
#pragma once

#include <cstdint>
#include <string>

#include "core/random.hpp"
#include "tensor/types.hpp"

namespace espalier {

/// The random numbers of one update.
struct RoundingStream {
  uint64_t seed = 0, purpose = 0;
};

/// `update`: its number, from 1.
inline RoundingStream rounding_stream(uint64_t seed, int64_t update) {
  return {seed, hash_name("stochastic_rounding." + std::to_string(update))};
}

/// Elements that share a block of random numbers, 16 bits each.
constexpr int64_t kRoundingBlock = 8;

/// The bits of element `element` from block element / kRoundingBlock of its stream: the halves of
/// the four words in order, the lower half of each first.
ESPALIER_FUNCTION uint32_t rounding_bits(const Philox4& block, int64_t element) {
  const auto place = static_cast<uint32_t>(element % kRoundingBlock);
  return block.v[place / 2] >> (place % 2 * 16) & 0xffffu;
}
ESPALIER_FUNCTION uint32_t rounding_bits(const RoundingStream& s, int64_t element) {
  return rounding_bits(philox(s.seed, s.purpose, static_cast<uint64_t>(element / kRoundingBlock)),
                       element);
}

/// x rounded away from zero where its lower 16 bits + random16 reach 2^16, else towards zero: with
/// a uniform random16 the mean is x, exactly. A bf16 stays as it is, NaN stays NaN; beyond the
/// largest bf16 the next value is infinity, as it is in rounding to nearest.
/// Source  Gupta, Agrawal, Gopalakrishnan, Narayanan 2015, arXiv:1502.02551, section 3
ESPALIER_FUNCTION bf16 round_stochastically(float x, uint32_t random16) {
  const uint32_t u = float_bits(x);
  // Finite: a carry out of the mantissa goes on into the exponent, as it must. NaN: by bf16(x), or
  // what the carry leaves would be an infinity or a zero.
  const uint32_t rounded = (u + random16) >> 16;
  const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
  bf16 result;
  result.bits = is_nan ? bf16::round(x) : static_cast<uint16_t>(rounded);
  return result;
}

}  // namespace espalier
