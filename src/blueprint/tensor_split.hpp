// SPDX-License-Identifier: Apache-2.0
// How tensor parallelism cuts: virtual shards, of which each rank holds a run of neighbours.
#pragma once

#include <algorithm>
#include <cstdint>

namespace espalier {

struct Range {
  int64_t first = 0, count = 0;
  int64_t last() const { return first + count; }
};

/// Part `part` of `count` things cut in `parts` runs of equal length, the last ones shorter or
/// empty where it does not divide.
inline Range cut_evenly(int64_t count, int64_t parts, int64_t part) {
  const int64_t most = (count + parts - 1) / parts;
  const int64_t first = std::min(part * most, count);
  return {first, std::min(most, count - first)};
}

/// Every product is formed shard by shard and the shards' results are added in a binary tree, so
/// that `shards` decides the arithmetic and `ranks` only who does it. In the fast mode shards =
/// ranks.
struct TensorSplit {
  int64_t ranks = 1, rank = 0;
  int64_t shards = 1;     // over all ranks; a multiple of ranks
  bool sequence = false;  // tokens are cut between the products
  int64_t local_shards() const { return shards / ranks; }
  int64_t first_shard() const { return rank * local_shards(); }
  /// This rank's run out of `count` things that are cut by shards.
  Range local(int64_t count) const {
    const int64_t first = cut_evenly(count, shards, first_shard()).first;
    return {first, cut_evenly(count, shards, first_shard() + local_shards() - 1).last() - first};
  }
  /// This rank's tokens between the products.
  Range tokens(int64_t count) const { return sequence ? local(count) : Range{0, count}; }
};

/// Key and value heads of one shard: a run of them, or one that `sharers` neighbouring shards
/// repeat.
struct KeyValueSplit {
  int64_t per_shard = 1;  // heads
  int64_t sharers = 1;    // shards that hold the same head
  KeyValueSplit(int64_t kv_heads, int64_t shards)
      : per_shard(std::max<int64_t>(1, kv_heads / shards)),
        sharers(std::max<int64_t>(1, shards / kv_heads)) {}
  int64_t first_head(int64_t shard) const { return shard / sharers * per_shard; }
  /// Heads that a rank holds, each once.
  Range local(const TensorSplit& split) const {
    const int64_t first = first_head(split.first_shard());
    return {first, first_head(split.first_shard() + split.local_shards() - 1) + per_shard - first};
  }
};

}  // namespace espalier
