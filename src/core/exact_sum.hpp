// SPDX-License-Identifier: Apache-2.0
// A sum of doubles without any rounding, so that neither order nor grouping can change it.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/random.hpp"

namespace espalier {

/// A double as digits of a fixed-point number of 32 bits a digit: it is the sum over i of digit[i]
/// 2^(32 (first + i) - 1074), each digit below 2^33 in size. Not for what is not finite.
struct ExactDigits {
  bool is_finite;
  int64_t first;
  int64_t digit[3];
};
ESPALIER_FUNCTION ExactDigits exact_digits(double x) {
  constexpr uint64_t kDigitBits = 32, kDigitMask = (uint64_t{1} << kDigitBits) - 1;
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  const uint64_t exponent = (bits >> 52) & 0x7ffu;
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ffu) return {false, 0, {0, 0, 0}};
  // The value is mantissa * 2^(position - 1074); subnormals have the position of exponent 1.
  mantissa |= static_cast<uint64_t>(exponent != 0) << 52;
  const uint64_t position = exponent - static_cast<uint64_t>(exponent != 0);
  const uint64_t shift = position % kDigitBits;
  const uint64_t low = (mantissa & kDigitMask) << shift, high = (mantissa >> kDigitBits) << shift;
  const int64_t sign = -static_cast<int64_t>(bits >> 63);  // 0 or -1
  return {true,
          static_cast<int64_t>(position / kDigitBits),
          {(static_cast<int64_t>(low & kDigitMask) ^ sign) - sign,
           (static_cast<int64_t>((low >> kDigitBits) + (high & kDigitMask)) ^ sign) - sign,
           (static_cast<int64_t>(high >> kDigitBits) ^ sign) - sign}};
}

/// Adds doubles in a fixed-point number that covers their whole range, 32 bits a word. Sums of
/// parts, of ranks for instance, are the sums of their words.
///
/// Not finite  values are counted and left out; the count is one of the words
/// Cost        a few ns a value, kWords * 8 bytes
/// Source      Kulisch 2013, Computer Arithmetic and Validity, chapter 8 (the long accumulator)
class ExactSum {
 public:
  /// Digits of 32 bits, least significant first, the last one signed; then the count of values that
  /// are not finite. 66 digits hold every double; the rest is room for 2^95 of the largest.
  static constexpr int64_t kWords = 70;
  /// The word that counts.
  static constexpr int64_t kNotFinite = kWords - 1;
  // An addition changes a word by less than 2^33. 2^29 of them stay below 2^62, and as much is left
  // for the digits that a sum over ranks leaves there: no word can overflow.
  static constexpr int64_t kMostPending = int64_t{1} << 29;

  void add(double x) {
    const ExactDigits d = exact_digits(x);
    if (!d.is_finite) {
      ++words_[kNotFinite];
      return;
    }
    int64_t* word = words_ + d.first;
    for (int i = 0; i < 3; ++i) word[i] += d.digit[i];
    if (++pending_ == kMostPending) normalise();
  }

  /// Adds what another one holds.
  void add(const ExactSum& other);

  /// The words, carries passed on, so that up to 2^28 sums may be added to them word by word before
  /// anything else is done.
  int64_t* words();

  /// The sum rounded once, to nearest and ties to even; infinite beyond the doubles, not a number
  /// if any value was not finite.
  double value() const;
  int64_t not_finite() const { return words_[kNotFinite]; }

 private:
  static constexpr uint64_t kDigitBits = 32;
  static constexpr uint64_t kDigitMask = (uint64_t{1} << kDigitBits) - 1;
  static constexpr int64_t kDigits = kWords - 1;

  void normalise();

  int64_t words_[kWords] = {};
  int64_t pending_ = 0;  // additions since the last normalise()
};

}  // namespace espalier
