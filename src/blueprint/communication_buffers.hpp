// SPDX-License-Identifier: Apache-2.0
// What messages need beside the data they carry: how sums over ranks are cut, how many are under
// way at once, and the bytes that follow. The rooms that talk allocate by it, the bill counts by
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "blueprint/partition.hpp"
#include "core/element_type.hpp"

namespace espalier {

/// What each rank owns of a buffer, from the buffer's start; the same on all ranks.
using Slices = std::vector<std::vector<FlatRange>>;

/// Slices of a bucket, and of a block, from its start.
Slices slices_of_bucket(const Bucket& bucket);
Slices slices_of_block(const Partition& partition, int64_t block);

/// Elements of all ranges.
int64_t elements_of(const std::vector<FlatRange>& ranges);

/// Elements: of the largest bucket and block, and of the largest part of one that a shard owns.
struct LargestSizes {
  int64_t whole = 0, owned = 0;
};
LargestSizes largest_bucket(const Partition& partition);
LargestSizes largest_block(const Partition& partition);

/// Elements of the largest of the even slices in which `ranks` add up `count` elements.
int64_t slice_size(int64_t count, int64_t ranks);

/// Buckets under way at once. With fewer the sum of one could not hide behind the transfer of
/// another.
constexpr int64_t kReducerLanes = 3;
int64_t reducer_lanes(const Partition& partition);

/// Blocks under way at once under ZeRO 2 and 3: one that is filled while one travels and one is
/// added up. Afterwards pieces of a shard's sums travel between replicas, some at once.
constexpr int64_t kScratch = 3;
constexpr int64_t kReplicaLanes = 3;
int64_t replica_piece(const Partition& partition);

/// Elements of a tied table whose gradients its two stages exchange at once; 0 on other ranks.
int64_t tied_portion(const Blueprint& blueprint);

/// Bytes of a sum's exchange over `ranks` ranks. `most`: elements of a buffer; `most_owned`: of one
/// rank's slices; `type` of the sum, `wire` of what travels.
int64_t slice_exchange_bytes(int64_t most, int64_t most_owned, ElementType type, ElementType wire,
                             int64_t ranks);
/// The same for even slices.
int64_t reduction_buffer_bytes(int64_t max_elements, ElementType type, ElementType wire,
                               int64_t ranks);
/// Of a GradientReducer and of a BlockReducer on `replicas` groups of partition.shards ranks.
int64_t reducer_buffer_bytes(const Partition& partition, ElementType wire,
                             ElementType gradient_type, int64_t replicas);
int64_t block_reducer_buffer_bytes(const Partition& partition, ElementType wire,
                                   ElementType gradient_type, int64_t replicas);
/// Of the activations and their gradients that travel between stages.
int64_t pipeline_buffer_bytes(const Blueprint& blueprint);

/// All of them on one rank, in the memory that is computed in.
int64_t communication_buffer_bytes(const Blueprint& blueprint);

/// Pinned host memory of messages that pass through it, where a rank computes on a device: what is
/// under way at once is there in whole, sent and received.
int64_t message_staging_bytes(const Blueprint& blueprint);

}  // namespace espalier
