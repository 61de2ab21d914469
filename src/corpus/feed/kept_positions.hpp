// SPDX-License-Identifier: Apache-2.0
// Positions of the stream that are used, where data.skip leaves some out.
#pragma once

#include <cstdint>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

/// Counts raw positions (0, 1, ...) without those in the skipped ranges [begin, end).
/// Cost      O(log ranges) a call, whatever the position
/// Errors    Internal if the ranges are not ascending and apart from each other
class KeptPositions {
 public:
  explicit KeptPositions(std::vector<IntegerRange> skipped = {});

  /// Raw position number `count` (from 0) of those at or behind raw position `from` that are kept.
  /// A negative count goes back; the answer is negative where nothing is left.
  int64_t after(int64_t from, int64_t count) const;

  /// What lies in raw positions [begin, end) and is skipped, cut to it.
  std::vector<IntegerRange> skipped_between(int64_t begin, int64_t end) const;

 private:
  int64_t kept_before(int64_t position) const;

  std::vector<IntegerRange> skipped_;
  std::vector<int64_t> total_;        // [ranges + 1] positions in the ranges before each
  std::vector<int64_t> kept_before_;  // [ranges] kept positions before each
};

}  // namespace espalier
