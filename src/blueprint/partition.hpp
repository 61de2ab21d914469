// SPDX-License-Identifier: Apache-2.0
// Who owns which part of the flat buffers under ZeRO, and in which buckets they travel. Pure data:
// reducer, optimizer, gather, checkpoint and memory bill read it.
#pragma once

#include <cstdint>
#include <vector>

#include "blueprint/parameter_table.hpp"

namespace espalier {

/// Elements [offset, offset + size) of the flat buffers.
struct FlatRange {
  int64_t offset = 0, size = 0;
  int64_t last() const { return offset + size; }
};

/// A run of the flat buffers that travels as one.
struct Bucket {
  int64_t offset = 0, size = 0;
  int64_t first_block = 0, last_block = 0;  // of the table; it holds a part of each
  std::vector<int64_t> cuts;  // [shards + 1] flat; shard s owns [cuts[s], cuts[s + 1])
};

/// What one shard owns of one bucket. Its compact buffers hold all its ranges one behind the other.
struct OwnedRange {
  int64_t flat = 0, size = 0;
  int64_t compact = 0;  // of Partition::owned: a multiple of kParameterAlignment
};

/// How a buffer is indexed: as the whole flat buffer, or as a shard's compact one.
enum class Indexing { flat, compact };

struct Partition {
  int64_t shards = 1;
  std::vector<FlatRange> blocks;  // as in the table
  std::vector<Bucket> buckets;    // in the order of the backward pass: the last elements first
  std::vector<std::vector<OwnedRange>> owned;  // by shard, in flat order; none is empty
  std::vector<int64_t> compact_sizes;          // by shard, padding included

  int64_t compact_size(int64_t shard) const { return compact_sizes[static_cast<size_t>(shard)]; }
  /// The largest over shards: what a memory bill counts.
  int64_t largest_compact_size() const;
  const std::vector<OwnedRange>& owned_by(int64_t shard) const {
    return owned[static_cast<size_t>(shard)];
  }
  /// What a shard owns of one block, in flat order.
  std::vector<OwnedRange> owned_in_block(int64_t shard, int64_t block) const;
};

/// Whether neighbouring blocks share a bucket.
enum class BucketJoin { yes, no };

/// Cuts every bucket in `shards` parts, as evenly as the borders of rows allow: no row of a
/// parameter's local part is cut, a vector is one row, and padding goes with the tensor before it.
///
/// Buckets  at most `bucket_elements` where rows allow; BucketJoin::yes joins neighbouring blocks
///          up to that, but never one of kind token or output: their cuts follow from the block
///          alone, so that the stages which hold a tied table own the same parts of it
/// Errors   Internal unless shards and bucket_elements are positive
Partition make_partition(const ParameterTable& table, int64_t shards, int64_t bucket_elements,
                         BucketJoin join);

/// All of the flat buffer as one range, where nothing is sharded: compact is flat.
std::vector<OwnedRange> own_everything(int64_t flat_size);

}  // namespace espalier
