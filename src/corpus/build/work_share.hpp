// SPDX-License-Identifier: Apache-2.0
// Who does which piece of work.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace espalier {

/// The numbers of the work that member `rank` of `members` does, ascending: the largest first to
/// the one with least, so that the loads are within 4/3 of the best.
/// Source  Graham 1969, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17
inline std::vector<int64_t> share_of_work(const std::vector<int64_t>& bytes, int rank,
                                          int members) {
  std::vector<int64_t> order(bytes.size()), own;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return bytes[static_cast<size_t>(a)] > bytes[static_cast<size_t>(b)];
  });
  std::vector<int64_t> load(static_cast<size_t>(members), 0);
  for (const int64_t work : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes[static_cast<size_t>(work)] + 1;  // empty ones are shared out too
    if (least - load.begin() == rank) own.push_back(work);
  }
  std::sort(own.begin(), own.end());
  return own;
}

}  // namespace espalier
