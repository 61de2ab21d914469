// SPDX-License-Identifier: Apache-2.0
// A sum over ranks in a fixed binary tree, as a state machine that never blocks.
#pragma once

#include <cstdint>
#include <memory>

#include "core/element_type.hpp"
#include "grid/comm.hpp"

namespace espalier {

/// All-reduce of one buffer at a time: every rank receives all ranks' pieces of its own slice, adds
/// them in the tree ((r0 + r1) + (r2 + r3)) + ..., neighbours first and an odd one carried up, and
/// sends the sums to all. The bits depend on the ranks' values alone, not on time or slices; with a
/// power of two of ranks that each hold the sum of a subtree, they are those of the whole tree.
///
/// Wire        the type of Real: pieces are sent from and received into the buffer itself.
///             bf16 (Real = float): every rank's values are rounded once, added in fp32, and the
///             sum rounded once; the owner of a slice keeps the rounded sums too, so that all ranks
///             hold the same bits
/// Collective  all ranks start the same reductions in the same order
/// Cost        sends 2 (n - 1) / n of the buffer on n ranks, in 2 (n - 1) messages
/// Memory      of the device in a build for one; streams as SliceExchange
template <class Real>
class OrderedReduction {
 public:
  virtual ~OrderedReduction() = default;

  /// data [count], count <= max_elements, is the sum once progress() returns true; on a device: for
  /// what the current stream is given from then on.
  virtual void start(Real* data, int64_t count) = 0;
  /// Does what can be done without waiting; true when nothing is under way.
  virtual bool progress() = 0;
  /// Memory it holds beside the data.
  virtual int64_t buffer_bytes() const = 0;
};

/// `comm` must outlive the result. Reductions of different `stream`s may be under way at once.
/// Errors  Internal unless `wire` is bf16 for float or the type of Real
template <class Real>
std::unique_ptr<OrderedReduction<Real>> make_ordered_reduction(const Comm& comm, ElementType wire,
                                                               int64_t max_elements, int stream);

}  // namespace espalier
