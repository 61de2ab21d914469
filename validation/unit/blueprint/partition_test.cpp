// SPDX-License-Identifier: Apache-2.0
// Partitions: they cover everything once, cut no row, are even, and a block alone decides on the
// cuts of a tied table.
#include "blueprint/partition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "core/error.hpp"
#include "deck/deck.hpp"

namespace espalier {
namespace {

Config config_of(const std::string& more = "") {
  const DeckResult result = parse_deck(R"(
      data.source = "random"
      batch.seq_length = 24
      model.vocab_size = 37
      model.hidden_size = 20
      model.intermediate_size = 28
      model.num_layers = 3
      model.num_heads = 4
      model.num_kv_heads = 2
      model.head_dim = 6
      model.qk_norm = true
      )" + more,
                                       "test.toml");
  EXPECT_TRUE(result.ok()) << fault_list(result.faults);
  return result.config;
}

ParameterTable table() {
  Config config = config_of();
  config.model.tie_embeddings = false;
  return make_parameter_table(config);
}

// Where cuts may lie.
std::set<int64_t> row_borders(const ParameterTable& t) {
  std::set<int64_t> borders = {t.flat_size};
  for (const ParameterSpec& p : t.parameters)
    for (int64_t row = 0; row < p.rows(); ++row) borders.insert(p.offset + row * p.columns());
  return borders;
}

int64_t largest_row(const ParameterTable& t) {
  int64_t most = 0;
  for (const ParameterSpec& p : t.parameters)
    most = std::max(most, p.columns() + kParameterAlignment);
  return most;
}

void expect_sound(const ParameterTable& t, const Partition& p, int64_t bucket_elements) {
  const std::set<int64_t> borders = row_borders(t);
  int64_t end = t.flat_size;
  for (const Bucket& b : p.buckets) {
    EXPECT_EQ(b.offset + b.size, end);  // no hole and no overlap, last elements first
    end = b.offset;
    EXPECT_GT(b.size, 0);
    EXPECT_LE(b.size, bucket_elements + largest_row(t));
    ASSERT_EQ(b.cuts.size(), static_cast<size_t>(p.shards) + 1);
    EXPECT_EQ(b.cuts.front(), b.offset);
    EXPECT_EQ(b.cuts.back(), b.offset + b.size);
    for (size_t s = 0; s < static_cast<size_t>(p.shards); ++s) {
      EXPECT_TRUE(borders.count(b.cuts[s])) << b.cuts[s];
      EXPECT_LE(b.cuts[s], b.cuts[s + 1]);
      const auto even = b.offset + b.size * static_cast<int64_t>(s) / p.shards;
      EXPECT_LE(std::abs(b.cuts[s] - even), largest_row(t) / 2) << "not the nearest border";
    }
    for (int64_t block = b.first_block; block <= b.last_block; ++block) {
      const FlatRange span = p.blocks[static_cast<size_t>(block)];
      EXPECT_LT(std::max(span.offset, b.offset), std::min(span.last(), b.offset + b.size));
    }
  }
  EXPECT_EQ(end, 0);
}

void expect_sound_owners(const ParameterTable& t, const Partition& p) {
  std::vector<int> owners(static_cast<size_t>(t.flat_size), 0);
  for (int64_t s = 0; s < p.shards; ++s) {
    int64_t flat = 0, compact = 0;
    for (const OwnedRange& r : p.owned_by(s)) {
      EXPECT_GE(r.flat, flat);
      EXPECT_GE(r.compact, compact);
      EXPECT_LT(r.compact - compact, kParameterAlignment);
      EXPECT_EQ(r.compact % kParameterAlignment, 0);
      flat = r.flat + r.size;
      compact = r.compact + r.size;
      for (int64_t i = r.flat; i < flat; ++i) ++owners[static_cast<size_t>(i)];
    }
    EXPECT_GE(p.compact_size(s), compact);
    EXPECT_EQ(p.compact_size(s) % kParameterAlignment, 0);
    EXPECT_LE(p.compact_size(s), p.largest_compact_size());
  }
  EXPECT_EQ(std::count(owners.begin(), owners.end(), 1), t.flat_size);
}

TEST(Partition, CoversEverythingOnceAtRowBorders) {
  const ParameterTable t = table();
  for (const int64_t shards : {1, 2, 3, 4, 8, 64})
    for (const int64_t elements : {int64_t{1}, int64_t{50}, int64_t{700}, int64_t{1} << 30})
      for (const BucketJoin join : {BucketJoin::yes, BucketJoin::no}) {
        SCOPED_TRACE(fmt::format("{} shards, buckets of {}", shards, elements));
        const Partition p = make_partition(t, shards, elements, join);
        expect_sound(t, p, elements);
        expect_sound_owners(t, p);
      }
}

TEST(Partition, JoinsOnlyNeighboursThatMay) {
  const ParameterTable t = table();
  const auto count = [&](int64_t elements, BucketJoin join) {
    return make_partition(t, 2, elements, join).buckets.size();
  };
  EXPECT_EQ(count(1 << 30, BucketJoin::no), t.blocks.size());
  // output alone, all between as one, token alone
  EXPECT_EQ(count(1 << 30, BucketJoin::yes), 3u);
  const Partition joined = make_partition(t, 2, 1 << 30, BucketJoin::yes);
  EXPECT_EQ(joined.buckets[1].first_block, 1);
  EXPECT_EQ(joined.buckets[1].last_block, static_cast<int64_t>(t.blocks.size()) - 2);
}

TEST(Partition, BlocksSeeTheirPartOfJoinedBuckets) {
  const ParameterTable t = table();
  for (const BucketJoin join : {BucketJoin::yes, BucketJoin::no})
    for (const int64_t elements : {300, 1 << 20}) {
      const Partition p = make_partition(t, 4, elements, join);
      for (size_t b = 0; b < t.blocks.size(); ++b) {
        int64_t found = 0;
        for (int64_t s = 0; s < 4; ++s)
          for (const OwnedRange& r : p.owned_in_block(s, static_cast<int64_t>(b))) {
            found += r.size;
            EXPECT_GE(r.flat, t.blocks[b].offset);
            EXPECT_LE(r.flat + r.size, t.blocks[b].offset + t.blocks[b].size);
            const auto& own = p.owned_by(s);
            EXPECT_TRUE(std::any_of(own.begin(), own.end(), [&](const OwnedRange& o) {
              return r.flat >= o.flat && r.flat + r.size <= o.flat + o.size &&
                     r.compact - o.compact == r.flat - o.flat;
            }));
          }
        EXPECT_EQ(found, t.blocks[b].size);
      }
    }
}

// The first and the last stage hold the same table behind different neighbours.
TEST(Partition, ATiedTableIsCutAlikeOnBothStages) {
  const Config config = config_of("grid.pipeline_parallel = 2\ngrid.data_parallel = 1\n");
  ASSERT_TRUE(config.model.tie_embeddings);
  const std::vector<StageRange> stages = {{0, 1}, {1, 3}};
  const ParameterTable first = make_parameter_table(config, {{}, stages, 2, 0});
  const ParameterTable last = make_parameter_table(config, {{}, stages, 2, 1});
  const int64_t output = static_cast<int64_t>(last.blocks.size()) - 1;
  ASSERT_EQ(last.blocks.back().kind, BlockKind::output);
  for (const int64_t shards : {2, 3, 4, 8})
    for (const int64_t elements : {int64_t{90}, int64_t{400}, int64_t{1} << 30}) {
      const Partition a = make_partition(first, shards, elements, BucketJoin::yes);
      const Partition b = make_partition(last, shards, elements, BucketJoin::yes);
      for (int64_t s = 0; s < shards; ++s) {
        const auto of_first = a.owned_in_block(s, 0), of_last = b.owned_in_block(s, output);
        ASSERT_EQ(of_first.size(), of_last.size());
        for (size_t i = 0; i < of_first.size(); ++i) {
          EXPECT_EQ(of_first[i].flat - first.blocks[0].offset,
                    of_last[i].flat - last.blocks.back().offset);
          EXPECT_EQ(of_first[i].size, of_last[i].size);
        }
      }
    }
}

TEST(Partition, MoreShardsThanRowsLeavesSomeWithNothing) {
  const ParameterTable t = table();
  const Partition p = make_partition(t, 4096, 1 << 30, BucketJoin::no);
  expect_sound_owners(t, p);
  const auto empty = [](const auto& ranges) { return ranges.empty(); };
  EXPECT_TRUE(std::any_of(p.owned.begin(), p.owned.end(), empty));
}

TEST(Partition, RefusesNonsense) {
  EXPECT_THROW(make_partition(table(), 0, 10, BucketJoin::no), InternalError);
  EXPECT_THROW(make_partition(table(), 1, 0, BucketJoin::no), InternalError);
  EXPECT_EQ(own_everything(48).size(), 1u);
  EXPECT_EQ(own_everything(48)[0].size, 48);
}

}  // namespace
}  // namespace espalier
