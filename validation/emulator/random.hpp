// SPDX-License-Identifier: Apache-2.0
// Emulated device: the random choices of an order, reproducible from one seed.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace espalier::emulator {

/// xorshift64*, Vigna 2016, "An experimental exploration of Marsaglia's xorshift generators".
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du) {
    if (state_ == 0) state_ = 1;
  }
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  /// In [0, bound); bound < 2^32 is uniform enough, above it only the low part is random.
  uint64_t below(uint64_t bound) { return (next() >> 32) * bound >> 32; }

 private:
  uint64_t state_;
};

/// ESPALIER_EMULATOR_SEED, 1 where it is not set.
inline uint64_t seed_of_environment() {
  const char* const text = getenv("ESPALIER_EMULATOR_SEED");
  return text == nullptr ? 1 : strtoull(text, nullptr, 10);
}

}  // namespace espalier::emulator
