// SPDX-License-Identifier: Apache-2.0
// The order in which samples are seen: a keyed permutation, so that any position of the stream is
// known in constant time and memory, on any rank, without a shuffled list.
#pragma once

#include <cstdint>

namespace espalier {

/// Order of n samples over epochs: position p of the endless stream is in epoch p / n, and holds
/// sample permute(epoch, p % n).
///
/// A Feistel network over the next power of two, its round function being Philox keyed by (seed,
/// "data.order", epoch); values of n and above are sent round again (cycle walking), fewer than
/// one extra round in the mean.
/// Errors    Internal if n < 1, position < 0 or index outside [0, n)
/// Source    Black & Rogaway 2002, "Ciphers with arbitrary finite domains", CT-RSA, section 3
class DataOrder {
 public:
  DataOrder(uint64_t seed, int64_t n);

  int64_t operator()(int64_t position) const;           ///< sample at a position of the stream
  int64_t permute(int64_t epoch, int64_t index) const;  ///< bijection of [0, n) for each epoch
  int64_t epoch(int64_t position) const { return position / n_; }
  int64_t size() const { return n_; }

 private:
  uint64_t encrypt(uint64_t key, uint64_t value) const;

  uint64_t seed_;
  int64_t n_;
  int high_bits_ = 0, low_bits_ = 0;  // the two halves; 2^(high+low) >= n
};

}  // namespace espalier
