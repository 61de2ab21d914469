// SPDX-License-Identifier: Apache-2.0
// Sums the gradients of one block of one micro-batch over the ranks that share a copy, each rank
// receiving what it owns: ZeRO stages 2 and 3, where no rank holds all gradients.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "blueprint/communication_buffers.hpp"
#include "core/element_type.hpp"
#include "grid/comm.hpp"
#include "parallel/side_stream.hpp"
#include "parallel/slice_exchange.hpp"
#include "tensor/views.hpp"

namespace espalier {

template <class Real>
class OrderedReduction;

/// Ranks, sums, wire, memory and collective order as GradientReducer.
/// Streams     an exchange starts once the device has done what the current stream was given before
///             submit(); sums, conversions and the sink run on the communication stream; after
///             drain() and reduce_over_replicas() the current stream waits for them
template <class Real>
class BlockReducer {
 public:
  /// Takes the sum of one owned range of a block. Ranges come in flat order, blocks in the order in
  /// which they were submitted; from within acquire(), submit(), progress() or drain().
  using Sink = std::function<void(int64_t block, const OwnedRange& range, const Real* sum)>;

  /// The communicators and the partition must outlive it.
  BlockReducer(const Comm& shard, const Comm& replica, const Partition& partition, ElementType wire,
               Sink sink);
  ~BlockReducer();

  /// Scratch [blocks[block].size] for the gradients of one micro-batch, indexed from the block's
  /// start, with what another block left in it. Waits while all kScratch are taken.
  /// Errors  Internal if all are held by the caller, who submitted none
  Real* acquire(int64_t block);
  /// Gives scratch back, filled, padding too, and starts its exchange. On all ranks in the same
  /// order.
  void submit(int64_t block, Real* scratch);
  /// Pushes transfers forward and returns at once.
  void progress();
  /// Waits until all that was submitted went to the sink.
  void drain();

  /// Once a step, after the last drain(): compact [compact_size] is summed over the replicas.
  void reduce_over_replicas(Real* compact);

  int64_t buffer_bytes() const;

 private:
  enum class Use { free, held, waiting, travelling };
  struct Scratch {
    Buffer<Real> data;
    std::unique_ptr<SliceExchange<Real>> exchange;
    device::Event filled;  // submitted, and the device has come so far
    device::Event freed;   // the sink has read it
    Use use = Use::free;
    int64_t block = 0;
  };

  void start_filled();

  SideStream side_;
  const Comm& shard_;
  const Comm& replica_;
  const Partition& partition_;
  Sink sink_;
  std::vector<std::vector<OwnedRange>> owned_;  // by block, of this rank
  std::vector<Slices> slices_;                  // by block
  std::vector<Scratch> pool_;
  std::deque<int64_t> travelling_;  // scratch numbers, waiting or on their way, as submitted
  std::vector<std::unique_ptr<OrderedReduction<Real>>> lanes_;  // over replicas
};

}  // namespace espalier
