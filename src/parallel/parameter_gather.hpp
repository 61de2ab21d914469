// SPDX-License-Identifier: Apache-2.0
// Brings the parameters that each rank owns to all ranks of its shard group: after an update (ZeRO
// stages 1 and 2), or block by block before their use (stage 3).
#pragma once

#include <cstdint>
#include <vector>

#include "blueprint/partition.hpp"
#include "device/buffer.hpp"
#include "grid/comm.hpp"

namespace espalier {

/// Buckets of gather_all() under way at once.
constexpr int64_t kGatherLanes = 4;

/// Values travel as they are, as bytes, without buffers of its own.
/// Collective  over shard: the same order of calls everywhere
/// Memory      of the device in a build for one. What travels does so behind what the current
///             stream was given before the start; once it is there any stream may use it
template <class T>
class ParameterGather {
 public:
  /// Both must outlive it.
  ParameterGather(const Comm& shard, const Partition& partition);

  /// flat [flat_size], of which this rank's own ranges hold the new values; in the end all do.
  void gather_all(T* flat);

  /// Starts to gather one block: `compact` [compact_size] holds what this rank owns, `block_buffer`
  /// [blocks[block].size] receives all of the block. Both stay untouched until the request is
  /// complete; the rank's own part is there at once, by a copy on the current stream.
  /// Any number may be under way.
  Request start(int64_t block, const T* compact, T* block_buffer);

 private:
  Request start_bucket(const Bucket& bucket, T* flat);
  T* target(T* place, int64_t flat);

  const Comm& shard_;
  const Partition& partition_;
  std::vector<std::vector<std::vector<OwnedRange>>> owned_;  // by block and shard
  Buffer<T> scrap_;                                          // what a test throws away
};

}  // namespace espalier
