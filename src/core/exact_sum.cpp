// SPDX-License-Identifier: Apache-2.0
// Carries, and the one rounding at the end.
#include "core/exact_sum.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace espalier {
namespace {

constexpr int kLeast = -1074;  // exponent of the least subnormal, and of bit 0
constexpr int kMantissaBits = 53;

// Bits of a non-negative fixed-point number in digits of 32.
class Bits {
 public:
  explicit Bits(const int64_t* digits) : digits_(digits) {}
  uint64_t at(int64_t bit) const {
    return static_cast<uint64_t>(digits_[bit / 32] >> (bit % 32)) & 1u;
  }
  // The `count` bits from `first` on, as a number.
  uint64_t from(int64_t first, int64_t count) const {
    uint64_t value = 0;
    for (int64_t i = count - 1; i >= 0; --i) value = value << 1 | at(first + i);
    return value;
  }
  bool any_below(int64_t bit) const {
    for (int64_t d = 0; d < bit / 32; ++d)
      if (digits_[d] != 0) return true;
    return bit % 32 != 0 && from(bit / 32 * 32, bit % 32) != 0;
  }

 private:
  const int64_t* digits_;
};

}  // namespace

// Every digit but the last becomes one of [0, 2^32); the shift of a negative one rounds down.
void ExactSum::normalise() {
  for (int64_t i = 0; i + 1 < kDigits; ++i) {
    const int64_t carry = words_[i] >> kDigitBits;
    words_[i] &= static_cast<int64_t>(kDigitMask);
    words_[i + 1] += carry;
  }
  pending_ = 0;
}

void ExactSum::add(const ExactSum& other) {
  ExactSum copy = other;
  copy.normalise();
  normalise();
  for (int64_t i = 0; i < kWords; ++i) words_[i] += copy.words_[i];
}

int64_t* ExactSum::words() {
  normalise();
  return words_;
}

double ExactSum::value() const {
  if (words_[kNotFinite] != 0) return std::numeric_limits<double>::quiet_NaN();
  ExactSum rest = *this;
  rest.normalise();
  const bool is_negative = rest.words_[kDigits - 1] < 0;
  if (is_negative) {
    for (int64_t i = 0; i < kDigits; ++i) rest.words_[i] = -rest.words_[i];
    rest.normalise();
  }
  int64_t digit = kDigits - 1;
  while (digit >= 0 && rest.words_[digit] == 0) --digit;
  if (digit < 0) return 0.0;
  const Bits bits(rest.words_);
  int64_t top = 32 * digit;  // the highest bit that is set; the last digit may be longer than 32
  for (int64_t word = rest.words_[digit]; word > 1; word >>= 1) ++top;
  if (top > 2 * 1074) return is_negative ? -HUGE_VAL : HUGE_VAL;
  const int64_t low = std::max<int64_t>(top - kMantissaBits + 1, 0);
  uint64_t mantissa = bits.from(low, top - low + 1);
  if (low > 0 && bits.at(low - 1) != 0)
    mantissa += static_cast<uint64_t>((mantissa & 1u) != 0 || bits.any_below(low - 1));
  const double value = std::ldexp(static_cast<double>(mantissa), static_cast<int>(low) + kLeast);
  return is_negative ? -value : value;
}

}  // namespace espalier
