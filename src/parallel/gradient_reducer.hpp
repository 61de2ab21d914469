// SPDX-License-Identifier: Apache-2.0
// Sums gradients over data-parallel ranks block by block, ZeRO stages 0 and 1, while the backward
// pass is still at work on the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "blueprint/partition.hpp"
#include "core/element_type.hpp"
#include "grid/comm.hpp"
#include "parallel/side_stream.hpp"

namespace espalier {

/// during_backward: a bucket travels as soon as it is complete. at_finish: all of them in finish().
enum class ReduceTime { during_backward, at_finish };

/// everywhere: all ranks hold all sums in the end (stage 0). at_owner: each holds those it owns,
/// and in other places whatever the exchange left there (stage 1).
enum class ReducerResult { everywhere, at_owner };

struct ReducerOptions {
  ElementType wire = ElementType::fp32;  // what travels: the buffer's own type, or bf16 for float
  ReduceTime time = ReduceTime::during_backward;
  ReducerResult result = ReducerResult::everywhere;
};

template <class Real>
class ReducerLane;

/// The reduction of one step after another over the same flat buffer.
///
/// Ranks       `shard`: neighbouring data-parallel ranks among which the partition cuts; `replica`:
///             those with the same shard index in the other groups. Either may have one rank
/// Sums        always in the binary tree of TreeSum, over shard below and over replica above: with
///             powers of two the bits of one tree over all of them, whoever owns what
/// Wire        bf16: values are rounded before they are sent, every time, and added in fp32. A sum
///             that its owner keeps is not rounded unless it was sent
/// In flight   at most kReducerLanes buckets, so that extra memory is bounded and used again
/// Collective  over shard and replica: the same partition, options and order of ready() everywhere
/// Memory      of the device in a build for one
/// Streams     a bucket starts once the device has done what the current stream was given before
///             the last ready() of its blocks; sums and conversions run on the communication
///             stream; after finish() the current stream waits for them
template <class Real>
class GradientReducer {
 public:
  /// All three must outlive the reducer.
  GradientReducer(const Comm& shard, const Comm& replica, const Partition& partition,
                  const ReducerOptions& options);
  ~GradientReducer();

  /// Starts a step, before the last micro-batch's backward pass. `gradients` is flat.
  void begin(Real* gradients);
  /// The gradients of block `block` of the table are final. Once in a step for each, in any order.
  void ready(int64_t block);
  /// Pushes transfers forward and returns at once; to be called between layers.
  void progress();
  /// Waits until the gradients hold the sums.
  /// Errors  Internal if a block was not declared ready
  void finish();

  /// Extra memory that it holds, for the memory bill.
  int64_t buffer_bytes() const;

 private:
  bool push();

  SideStream side_;
  const Comm& waits_on_;  // the axis that finish() is counted for
  const Partition& partition_;
  const ReduceTime time_;
  std::vector<int64_t> missing_;          // blocks of each bucket in this step
  std::vector<device::Event> is_filled_;  // by bucket, recorded when no block is missing
  std::vector<char> is_ready_;            // by block
  std::vector<std::unique_ptr<ReducerLane<Real>>> lanes_;
  Real* gradients_ = nullptr;  // null between steps
  int64_t next_ = 0;           // first bucket that has not started
  int64_t blocks_left_ = 0;
};

}  // namespace espalier
