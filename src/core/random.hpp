// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: a value is a pure function of (seed, purpose, index).
// No rank number ever enters, so no layout can change a value.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

#if defined(__CUDACC__)
#define ESPALIER_FUNCTION __host__ __device__ inline
#else
#define ESPALIER_FUNCTION inline
#endif

namespace espalier {

struct Philox4 {
  uint32_t v[4];
};

/// Philox 4x32 with 10 rounds.
/// Source  Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11.
ESPALIER_FUNCTION Philox4 philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Philox4{{c0, c1, c2, c3}};
}

/// FNV-1a, 64 bits: the purpose of a stream (a parameter name, say) as a number.
constexpr uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : name) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3ull;
  }
  return h;
}

/// 64 random bits for element `index` of stream (seed, purpose).
ESPALIER_FUNCTION uint64_t random_bits(uint64_t seed, uint64_t purpose, uint64_t index) {
  const Philox4 r = philox(seed, purpose, index);
  return (uint64_t{r.v[1]} << 32) | r.v[0];
}

/// Uniform in [0, 1) with 53 bits.
ESPALIER_FUNCTION double random_uniform(uint64_t seed, uint64_t purpose, uint64_t index) {
  return static_cast<double>(random_bits(seed, purpose, index) >> 11) * 0x1.0p-53;
}

/// Standard normal by Box and Muller from the four words of one Philox block.
ESPALIER_FUNCTION double random_normal(uint64_t seed, uint64_t purpose, uint64_t index) {
  const Philox4 r = philox(seed, purpose, index);
  const uint64_t a = (uint64_t{r.v[1]} << 32) | r.v[0];
  const uint64_t b = (uint64_t{r.v[3]} << 32) | r.v[2];
  const double u = (static_cast<double>(a >> 11) + 1.0) * 0x1.0p-53;  // (0, 1]
  const double v = static_cast<double>(b >> 11) * 0x1.0p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586476925286766559 * v);
}

}  // namespace espalier
