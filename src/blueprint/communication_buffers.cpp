// SPDX-License-Identifier: Apache-2.0
#include "blueprint/communication_buffers.hpp"

#include <algorithm>

namespace espalier {
namespace {

constexpr int64_t kSliceUnit = 16;                      // elements; slices begin where vectors do
constexpr int64_t kReplicaPiece = int64_t{1} << 22;     // elements of one sum over replicas
constexpr int64_t kMostTiedPortion = int64_t{1} << 20;  // elements

ElementType gradient_type(const Blueprint& b) {
  return b.config.numerics.compute_type == ElementType::fp64 ? ElementType::fp64
                                                             : ElementType::fp32;
}

void grow(LargestSizes& sizes, int64_t whole, const Slices& slices) {
  sizes.whole = std::max(sizes.whole, whole);
  for (const auto& ranges : slices) sizes.owned = std::max(sizes.owned, elements_of(ranges));
}

// Of one message between stages.
int64_t boundary_bytes(const Blueprint& b) {
  return b.activations.own_tokens.count * b.config.model.hidden_size *
         element_bytes(b.config.numerics.compute_type);
}

// Messages between stages that a rank holds at once.
int64_t boundary_messages(const Blueprint& b) {
  const Schedule& s = b.schedule;
  if (s.ranks == 1) return 0;
  return receive_slots(s, b.rank.pipeline, ActionKind::recv_forward) +
         receive_slots(s, b.rank.pipeline, ActionKind::recv_backward) +
         4;  // two sends under way in each direction
}

}  // namespace

Slices slices_of_bucket(const Bucket& bucket) {
  Slices slices;
  for (size_t s = 0; s + 1 < bucket.cuts.size(); ++s)
    slices.push_back({{bucket.cuts[s] - bucket.offset, bucket.cuts[s + 1] - bucket.cuts[s]}});
  return slices;
}

Slices slices_of_block(const Partition& partition, int64_t block) {
  const int64_t start = partition.blocks[static_cast<size_t>(block)].offset;
  Slices slices(static_cast<size_t>(partition.shards));
  for (int64_t s = 0; s < partition.shards; ++s)
    for (const OwnedRange& range : partition.owned_in_block(s, block))
      slices[static_cast<size_t>(s)].push_back({range.flat - start, range.size});
  return slices;
}

int64_t elements_of(const std::vector<FlatRange>& ranges) {
  int64_t sum = 0;
  for (const FlatRange& range : ranges) sum += range.size;
  return sum;
}

LargestSizes largest_bucket(const Partition& partition) {
  LargestSizes sizes;
  for (const Bucket& bucket : partition.buckets) grow(sizes, bucket.size, slices_of_bucket(bucket));
  return sizes;
}

LargestSizes largest_block(const Partition& partition) {
  LargestSizes sizes;
  for (size_t block = 0; block < partition.blocks.size(); ++block)
    grow(sizes, partition.blocks[block].size,
         slices_of_block(partition, static_cast<int64_t>(block)));
  return sizes;
}

int64_t slice_size(int64_t count, int64_t ranks) {
  const int64_t units = (count + kSliceUnit - 1) / kSliceUnit;
  return (units + ranks - 1) / ranks * kSliceUnit;
}

int64_t reducer_lanes(const Partition& partition) {
  return std::min<int64_t>(kReducerLanes, static_cast<int64_t>(partition.buckets.size()));
}

int64_t replica_piece(const Partition& partition) {
  return std::min(kReplicaPiece, partition.largest_compact_size());
}

int64_t tied_portion(const Blueprint& b) {
  if (!has_tied_copy(b.config) || b.config.grid.pipeline_parallel == 1) return 0;
  int64_t table = 0;
  for (const BlockSpan& span : b.parameters.blocks)
    if (span.kind == BlockKind::token || span.kind == BlockKind::output)
      table = std::max(table, span.size);
  return std::min(table, kMostTiedPortion);
}

int64_t slice_exchange_bytes(int64_t most, int64_t most_owned, ElementType type, ElementType wire,
                             int64_t ranks) {
  if (ranks == 1) return 0;
  return (most_owned * (ranks - 1) + (type == wire ? 0 : most)) * element_bytes(wire);
}

int64_t reduction_buffer_bytes(int64_t max_elements, ElementType type, ElementType wire,
                               int64_t ranks) {
  return slice_exchange_bytes(max_elements, slice_size(max_elements, ranks), type, wire, ranks);
}

int64_t reducer_buffer_bytes(const Partition& partition, ElementType wire,
                             ElementType gradient_type, int64_t replicas) {
  const LargestSizes sizes = largest_bucket(partition);
  return reducer_lanes(partition) *
         (slice_exchange_bytes(sizes.whole, sizes.owned, gradient_type, wire, partition.shards) +
          reduction_buffer_bytes(sizes.owned, gradient_type, wire, replicas));
}

int64_t block_reducer_buffer_bytes(const Partition& partition, ElementType wire,
                                   ElementType gradient_type, int64_t replicas) {
  const LargestSizes sizes = largest_block(partition);
  return kScratch * (sizes.whole * element_bytes(gradient_type) +
                     slice_exchange_bytes(sizes.whole, sizes.owned, gradient_type, wire,
                                          partition.shards)) +
         kReplicaLanes *
             reduction_buffer_bytes(replica_piece(partition), gradient_type, wire, replicas);
}

int64_t pipeline_buffer_bytes(const Blueprint& b) {
  if (b.schedule.ranks == 1 && b.schedule.chunks > 1) return boundary_bytes(b);
  return boundary_messages(b) * boundary_bytes(b);
}

int64_t communication_buffer_bytes(const Blueprint& b) {
  const ElementType type = gradient_type(b), wire = b.config.numerics.gradient_reduce_type;
  const int64_t beside = tied_portion(b) * element_bytes(type) + pipeline_buffer_bytes(b);
  return beside + (b.config.grid.zero_stage < 2
                       ? reducer_buffer_bytes(b.partition, wire, type, b.zero_replicas)
                       : block_reducer_buffer_bytes(b.partition, wire, type, b.zero_replicas));
}

// Blocks of the pool are powers of two, so up to twice as much for small messages; against that
// stands that not all of it is ever under way at once.
int64_t message_staging_bytes(const Blueprint& b) {
  const GridConfig& grid = b.config.grid;
  const int64_t wire = element_bytes(b.config.numerics.gradient_reduce_type);
  int64_t bytes = boundary_messages(b) * boundary_bytes(b) +
                  2 * tied_portion(b) * element_bytes(gradient_type(b));
  if (grid.tensor_parallel > 1)
    bytes += 2 * boundary_bytes(b) * (grid.sequence_parallel ? grid.tensor_parallel : 1);
  if (b.data_parallel == 1) return bytes;
  const bool keeps_whole = grid.zero_stage < 2;
  const LargestSizes sizes = keeps_whole ? largest_bucket(b.partition) : largest_block(b.partition);
  // Of a sum that `ranks` share evenly, a rank sends and receives what the others own.
  const auto sum = [&](int64_t owned, int64_t ranks) { return 2 * wire * (ranks - 1) * owned; };
  bytes += sum(sizes.owned, b.zero_shards) * (keeps_whole ? reducer_lanes(b.partition) : kScratch);
  const int64_t piece = keeps_whole ? sizes.owned : replica_piece(b.partition);
  bytes += sum(slice_size(piece, b.zero_replicas), b.zero_replicas) *
           (keeps_whole ? reducer_lanes(b.partition) : kReplicaLanes);
  if (grid.zero_stage == 3)
    bytes += gathered_elements(b.parameters) * element_bytes(b.config.numerics.compute_type);
  return bytes;
}

}  // namespace espalier
