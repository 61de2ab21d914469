// SPDX-License-Identifier: Apache-2.0
// Counting round the skipped ranges.
#include "corpus/feed/kept_positions.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {

KeptPositions::KeptPositions(std::vector<IntegerRange> skipped)
    : skipped_(std::move(skipped)), total_{0} {
  int64_t behind = 0;
  for (const IntegerRange& range : skipped_) {
    ESPALIER_REQUIRE(range[0] >= behind && range[0] < range[1], "skipped positions [{}, {})",
                     range[0], range[1]);
    kept_before_.push_back(range[0] - total_.back());
    total_.push_back(total_.back() + range[1] - range[0]);
    behind = range[1];
  }
}

int64_t KeptPositions::kept_before(int64_t position) const {
  const auto next =
      std::lower_bound(skipped_.begin(), skipped_.end(), position,
                       [](const IntegerRange& range, int64_t value) { return range[0] < value; });
  const auto before = static_cast<size_t>(next - skipped_.begin());
  if (before == 0) return position;
  return std::max(position, skipped_[before - 1][1]) - total_[before];
}

int64_t KeptPositions::after(int64_t from, int64_t count) const {
  int64_t number = kept_before(from) + count;
  const auto next = std::upper_bound(kept_before_.begin(), kept_before_.end(), number);
  number += total_[static_cast<size_t>(next - kept_before_.begin())];
  return number;
}

std::vector<IntegerRange> KeptPositions::skipped_between(int64_t begin, int64_t end) const {
  std::vector<IntegerRange> found;
  auto range = std::upper_bound(
      skipped_.begin(), skipped_.end(), begin,
      [](int64_t value, const IntegerRange& candidate) { return value < candidate[1]; });
  for (; range != skipped_.end() && (*range)[0] < end; ++range)
    found.push_back({std::max(begin, (*range)[0]), std::min(end, (*range)[1])});
  return found;
}

}  // namespace espalier
