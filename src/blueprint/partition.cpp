// SPDX-License-Identifier: Apache-2.0
// Buckets, their cuts at the borders of rows, and the compact layout.
#include "blueprint/partition.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

// Where the flat buffer may be cut.
class RowBorders {
 public:
  explicit RowBorders(const ParameterTable& table) {
    for (const ParameterSpec& p : table.parameters)
      if (p.size() > 0) rows_.push_back({p.offset, p.columns(), p.rows()});
    flat_size_ = table.flat_size;
  }

  // The border nearest to an element, the lower one of two.
  int64_t nearest(int64_t element) const {
    const auto after = std::upper_bound(rows_.begin(), rows_.end(), element,
                                        [](int64_t at, const Rows& r) { return at < r.offset; });
    if (after == rows_.begin()) return 0;
    const Rows& rows = *(after - 1);
    const int64_t row = std::min((element - rows.offset) / rows.columns, rows.count - 1);
    const int64_t below = rows.offset + row * rows.columns;
    const int64_t next = after == rows_.end() ? flat_size_ : after->offset;
    const int64_t above = row + 1 < rows.count ? below + rows.columns : next;
    return element - below <= above - element ? below : above;
  }

 private:
  struct Rows {
    int64_t offset, columns, count;
  };
  std::vector<Rows> rows_;  // of each parameter
  int64_t flat_size_ = 0;
};

// The borders of `parts` nearly equal parts of a range, both ends included.
std::vector<int64_t> cut(const RowBorders& borders, const FlatRange& range, int64_t parts) {
  std::vector<int64_t> cuts = {range.offset};
  for (int64_t k = 1; k < parts; ++k) {
    // Without overflow, and the same wherever the range lies.
    const int64_t share = range.size / parts * k + range.size % parts * k / parts;
    cuts.push_back(std::clamp(borders.nearest(range.offset + share), cuts.back(), range.last()));
  }
  cuts.push_back(range.last());
  return cuts;
}

bool stands_alone(BlockKind kind) {
  return kind == BlockKind::token || kind == BlockKind::output;
}

// From the last block to the first, so from the highest elements to the lowest.
void add_buckets(Partition& partition, const ParameterTable& table, const RowBorders& borders,
                 int64_t most, BucketJoin join) {
  bool may_grow = false;
  for (auto block = static_cast<int64_t>(table.blocks.size()) - 1; block >= 0; --block) {
    const BlockSpan& span = table.blocks[static_cast<size_t>(block)];
    if (span.size == 0) continue;
    const bool is_alone = join == BucketJoin::no || stands_alone(span.kind);
    std::vector<Bucket>& buckets = partition.buckets;
    if (may_grow && !is_alone && buckets.back().size + span.size <= most &&
        span.offset + span.size == buckets.back().offset) {
      buckets.back().offset = span.offset;
      buckets.back().size += span.size;
      buckets.back().first_block = block;
      continue;
    }
    const int64_t pieces = (span.size + most - 1) / most;
    const std::vector<int64_t> cuts = cut(borders, {span.offset, span.size}, pieces);
    for (auto k = static_cast<size_t>(pieces); k > 0; --k)
      if (cuts[k] > cuts[k - 1])
        buckets.push_back({cuts[k - 1], cuts[k] - cuts[k - 1], block, block, {}});
    may_grow = !is_alone && pieces == 1;
  }
}

int64_t aligned(int64_t elements) {
  return (elements + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
}

void add_owners(Partition& partition) {
  const auto shards = static_cast<size_t>(partition.shards);
  partition.owned.resize(shards);
  partition.compact_sizes.assign(shards, 0);
  for (auto bucket = partition.buckets.rbegin(); bucket != partition.buckets.rend(); ++bucket)
    for (size_t s = 0; s < shards; ++s) {
      const int64_t first = bucket->cuts[s], size = bucket->cuts[s + 1] - first;
      if (size == 0) continue;
      partition.owned[s].push_back({first, size, partition.compact_sizes[s]});
      partition.compact_sizes[s] += aligned(size);
    }
}

}  // namespace

int64_t Partition::largest_compact_size() const {
  return *std::max_element(compact_sizes.begin(), compact_sizes.end());
}

std::vector<OwnedRange> Partition::owned_in_block(int64_t shard, int64_t block) const {
  const FlatRange span = blocks[static_cast<size_t>(block)];
  std::vector<OwnedRange> inside;
  for (const OwnedRange& range : owned_by(shard)) {
    const int64_t first = std::max(range.flat, span.offset);
    const int64_t last = std::min(range.flat + range.size, span.last());
    if (first < last) inside.push_back({first, last - first, range.compact + first - range.flat});
  }
  return inside;
}

Partition make_partition(const ParameterTable& table, int64_t shards, int64_t bucket_elements,
                         BucketJoin join) {
  ESPALIER_REQUIRE(shards > 0 && bucket_elements > 0, "a partition in {} shards, buckets of {}",
                   shards, bucket_elements);
  Partition partition;
  partition.shards = shards;
  for (const BlockSpan& span : table.blocks) partition.blocks.push_back({span.offset, span.size});
  const RowBorders borders(table);
  add_buckets(partition, table, borders, bucket_elements, join);
  for (Bucket& bucket : partition.buckets)
    bucket.cuts = cut(borders, {bucket.offset, bucket.size}, shards);
  add_owners(partition);
  return partition;
}

std::vector<OwnedRange> own_everything(int64_t flat_size) {
  return {{0, flat_size, 0}};
}

}  // namespace espalier
