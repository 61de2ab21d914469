// SPDX-License-Identifier: Apache-2.0
// The local half of a sum over ranks: on the host at once, on a device as kernels of the current
// stream.
#pragma once

#include <cstdint>

#include "tensor/types.hpp"

namespace espalier {

/// One array of every rank: this rank's own, and those of the others by rank, one behind the other.
template <class Wire>
struct RankPieces {
  const Wire* own;
  const Wire* received;  // [ranks - 1, stride]; [ranks, stride] where rank == ranks
  int64_t stride;
  int rank;  // this one; == ranks: the own array stands among the received
  int ranks;
  ESPALIER_FUNCTION const Wire* at(int r) const {
    return r == rank ? own : received + (r < rank ? r : r - 1) * stride;
  }
};

/// out [size] = sum over ranks in the tree of TreeSum, added in Acc<Wire> and rounded once; out may
/// be the own array. The same bits on host and device.
/// Instances  (Wire, Out) as cuda::tree_sum
template <class Wire, class Out>
void sum_over_ranks(const RankPieces<Wire>& pieces, Out* out, int64_t size);

}  // namespace espalier
