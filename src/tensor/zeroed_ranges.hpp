// SPDX-License-Identifier: Apache-2.0
// Many short ranges of a flat buffer, set to zero by one kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "blueprint/partition.hpp"
#include "tensor/views.hpp"

namespace espalier {

/// Ranges in groups, each a few vectors long: on a device a team of threads clears one.
class ZeroedRanges {
 public:
  explicit ZeroedRanges(const std::vector<std::vector<FlatRange>>& groups);

  /// Sets the ranges of all groups to zero; offsets count from `data`. Instances  float, double
  template <class Real>
  void clear(Real* data) const;
  /// Those of one group.
  template <class Real>
  void clear(Real* data, int64_t group) const;

 private:
  Buffer<FlatRange> ranges_;
  std::vector<int64_t> first_;  // by group, and one past the last
};

}  // namespace espalier
