// SPDX-License-Identifier: Apache-2.0
// The fixed binary tree of sums over shards and ranks, for one element, in kernels.
#pragma once

#include <cstdint>

#include "tensor/types.hpp"

namespace espalier {

/// Sum of numbers that come one by one in the fixed binary tree: partial sums of 1, 2, 4, ...
/// leaves wait until their neighbour is complete, and what is left is added from the right. The
/// left part of n leaves so is the greatest power of two below n.
template <class Real>
class StreamedTree {
 public:
  ESPALIER_FUNCTION void add(Real leaf) {
    ++leaves_;
    for (int64_t n = leaves_; n % 2 == 0; n /= 2) leaf = waiting_[--depth_] + leaf;
    waiting_[depth_++] = leaf;
  }
  ESPALIER_FUNCTION Real sum() const {
    Real total = depth_ > 0 ? waiting_[depth_ - 1] : Real(0);
    for (int d = depth_ - 2; d >= 0; --d) total = waiting_[d] + total;
    return total;
  }

 private:
  Real waiting_[64] = {};  // one for every bit of a number of leaves
  int64_t leaves_ = 0;
  int depth_ = 0;
};

}  // namespace espalier
