// SPDX-License-Identifier: Apache-2.0
// Token arrays cut into windows of seq_length tokens and one more, which is the last target.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "corpus/store/token_array.hpp"

namespace espalier {

/// A numbered set of windows, each seq_length + 1 tokens; neighbours share one token.
class TokenWindows {
 public:
  static constexpr int64_t kEndless = INT64_MAX;

  virtual ~TokenWindows() = default;
  virtual int64_t windows() const = 0;                        ///< kEndless if there is no end
  virtual void read(int64_t window, int32_t* out) const = 0;  ///< out [seq_length + 1]
  virtual int32_t end_of_document() const = 0;
};

/// Window number i of `wanted` windows spread evenly over `total`: what a validation of fewer
/// windows than there are looks at, so that it sees all sources and languages, and not the first
/// alone.
inline int64_t spread_window(int64_t i, int64_t wanted, int64_t total) {
  return static_cast<int64_t>(static_cast<__int128>(i) * total / wanted);
}

/// What happens to an array that is shorter than one window.
enum class ShortArrays { refuse, leave_out };

/// Windows of token arrays. Arrays are one logical row of windows, and no window crosses arrays;
/// what is left at the end of an array and fills no window is never read.
/// Errors    DataError if an array is shorter than one window and is not to be left out
class ArrayWindows : public TokenWindows {
 public:
  ArrayWindows(std::vector<std::unique_ptr<const TokenArray>> arrays, int64_t seq_length,
               ShortArrays shorter);
  int64_t windows() const override { return first_window_.back(); }
  void read(int64_t window, int32_t* out) const override;
  int32_t end_of_document() const override;
  const std::vector<std::unique_ptr<const TokenArray>>& arrays() const { return arrays_; }

 private:
  int64_t seq_length_;
  std::vector<std::unique_ptr<const TokenArray>> arrays_;
  std::vector<int64_t> first_window_;  // of each array; the last entry is the number of windows
};

/// An endless array of random tokens, each a pure function of (seed, purpose, place): id
/// vocab_size - 1 ends a document, about three documents a window; the others are uniform.
class RandomWindows : public TokenWindows {
 public:
  RandomWindows(uint64_t seed, uint64_t purpose, int64_t vocab_size, int64_t seq_length);
  int64_t windows() const override { return kEndless; }
  void read(int64_t window, int32_t* out) const override;
  int32_t end_of_document() const override { return static_cast<int32_t>(vocab_size_ - 1); }

 private:
  uint64_t seed_, purpose_;
  int64_t vocab_size_, seq_length_;
  uint64_t end_below_;  // a token ends a document when its 64 random bits are below this
};

}  // namespace espalier
