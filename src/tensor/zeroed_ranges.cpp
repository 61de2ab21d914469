// SPDX-License-Identifier: Apache-2.0
#include "tensor/zeroed_ranges.hpp"

#include "tensor/rows.hpp"

namespace espalier {
namespace {

template <class Real>
void clear_ranges(Real* data, const FlatRange* ranges, int64_t count) {
  for_each_row(
      "ranges.clear", count, KOKKOS_LAMBDA(const Row& row) {
        const FlatRange range = ranges[row.index()];
        row.each(range.size, [=](int64_t i) { data[range.offset + i] = Real(0); });
      });
}

}  // namespace

ZeroedRanges::ZeroedRanges(const std::vector<std::vector<FlatRange>>& groups) : first_{0} {
  std::vector<FlatRange> all;
  for (const auto& group : groups) {
    all.insert(all.end(), group.begin(), group.end());
    first_.push_back(static_cast<int64_t>(all.size()));
  }
  if (!all.empty()) ranges_ = device_copy("ranges", all);
}

template <class Real>
void ZeroedRanges::clear(Real* data) const {
  clear_ranges(data, static_cast<const FlatRange*>(ranges_.data()), first_.back());
}

template <class Real>
void ZeroedRanges::clear(Real* data, int64_t group) const {
  const int64_t first = first_[static_cast<size_t>(group)];
  clear_ranges(data, static_cast<const FlatRange*>(ranges_.data()) + first,
               first_[static_cast<size_t>(group) + 1] - first);
}

template void ZeroedRanges::clear<float>(float*) const;
template void ZeroedRanges::clear<double>(double*) const;
template void ZeroedRanges::clear<float>(float*, int64_t) const;
template void ZeroedRanges::clear<double>(double*, int64_t) const;

}  // namespace espalier
