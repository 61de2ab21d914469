// SPDX-License-Identifier: Apache-2.0
// The keyed permutation of the sample order.
#include "corpus/data_order.hpp"

#include "core/error.hpp"
#include "core/random.hpp"

namespace espalier {
namespace {

// Each half is changed six times. Four rounds suffice in theory for wide halves (Luby and Rackoff);
// halves of a few bits need more to look random.
constexpr int kRounds = 12;

constexpr uint64_t low_mask(int bits) {
  return (uint64_t{1} << bits) - 1;
}

}  // namespace

DataOrder::DataOrder(uint64_t seed, int64_t n) : seed_(seed), n_(n) {
  ESPALIER_REQUIRE(n >= 1 && n <= (int64_t{1} << 62), "an order of {} samples was asked for", n);
  int bits = 0;
  while ((uint64_t{1} << bits) < static_cast<uint64_t>(n)) ++bits;
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t DataOrder::encrypt(uint64_t key, uint64_t value) const {
  uint64_t low = value & low_mask(low_bits_), high = value >> low_bits_;
  for (int round = 0; round < kRounds; ++round) {
    const auto purpose = static_cast<uint64_t>(round);
    if (round % 2 == 0) {
      high ^= random_bits(key, purpose, low) & low_mask(high_bits_);
    } else {
      low ^= random_bits(key, purpose, high) & low_mask(low_bits_);
    }
  }
  return (high << low_bits_) | low;
}

int64_t DataOrder::permute(int64_t epoch, int64_t index) const {
  ESPALIER_REQUIRE(epoch >= 0 && index >= 0 && index < n_, "epoch {}, index {} of {}", epoch, index,
                   n_);
  const uint64_t key = random_bits(seed_, hash_name("data.order"), static_cast<uint64_t>(epoch));
  auto value = static_cast<uint64_t>(index);
  do {
    value = encrypt(key, value);
  } while (value >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(value);
}

int64_t DataOrder::operator()(int64_t position) const {
  ESPALIER_REQUIRE(position >= 0, "position {} of the data stream", position);
  return permute(position / n_, position % n_);
}

}  // namespace espalier
