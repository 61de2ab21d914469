// SPDX-License-Identifier: Apache-2.0
// AdamW over shards against AdamW over everything, bit for bit; and the segments of a table.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "../../device_list.hpp"
#include "core/error.hpp"
#include "optim/adamw.hpp"
#include "small_table.hpp"

namespace espalier {
namespace {

using check::DeviceList;

OptimizerConfig config() {
  OptimizerConfig c;
  c.weight_decay = 0.1;
  return c;
}

// What all runs start from and are fed with.
template <class Real>
struct Inputs {
  std::vector<Real> master;
  std::vector<std::vector<Real>> gradients;
  explicit Inputs(const ParameterTable& table) : master(flat_values<Real>(table, 1, Real(0))) {
    for (const uint64_t seed : {100, 102, 104})
      gradients.push_back(flat_values<Real>(table, seed, Real(0)));
  }
};

template <class T>
struct State {
  std::vector<Acc<T>> master, first, second;
  std::vector<T> compute;
};

// Three updates by one owner of everything.
template <class T>
State<T> unsharded(const ParameterTable& table, const Inputs<Acc<T>>& inputs) {
  const DeviceList<Acc<T>> master(inputs.master);
  const DeviceList<T> compute(table.flat_size);
  AdamW<T> optimizer(make_segments(table), own_everything(table.flat_size), {}, config());
  for (const auto& g : inputs.gradients)
    optimizer.update(master.data(), DeviceList<Acc<T>>(g).data(),
                     std::is_same_v<T, Acc<T>> ? nullptr : compute.data(), 1e-2, 0.3);
  return {master.host(), host_copy(optimizer.first_moment(), table.flat_size),
          host_copy(optimizer.second_moment(), table.flat_size), compute.host()};
}

template <class U>
void scatter(std::vector<U>& flat, const std::vector<U>& compact,
             const std::vector<OwnedRange>& owned) {
  for (const OwnedRange& r : owned)
    std::copy_n(compact.begin() + r.compact, r.size, flat.begin() + r.flat);
}

// The same by all shards one after the other, put together again.
template <class T>
State<T> sharded(const ParameterTable& table, const Inputs<Acc<T>>& inputs,
                 const Partition& partition, AdamWIndexing indexing) {
  State<T> s;
  const auto& start = inputs.master;
  s.master = s.first = s.second = std::vector<Acc<T>>(start.size(), Acc<T>(0));
  s.compute.assign(start.size(), T(0.0f));
  const auto place = [](Indexing indexed, auto& flat, int64_t shard, const Partition& p) {
    return indexed == Indexing::flat ? flat : compacted(flat, p, shard);
  };
  for (int64_t shard = 0; shard < partition.shards; ++shard) {
    const auto& owned = partition.owned_by(shard);
    AdamW<T> optimizer(make_segments(table), owned, indexing, config());
    EXPECT_LE(optimizer.moment_size(), partition.compact_size(shard));
    const DeviceList<Acc<T>> own_master(place(indexing.master, start, shard, partition));
    const DeviceList<T> own_compute(place(indexing.compute, s.compute, shard, partition));
    for (const auto& all : inputs.gradients) {
      const DeviceList<Acc<T>> g(place(indexing.gradient, all, shard, partition));
      optimizer.update(own_master.data(), g.data(),
                       std::is_same_v<T, Acc<T>> ? nullptr : own_compute.data(), 1e-2, 0.3);
    }
    scatter(s.first, host_copy(optimizer.first_moment(), optimizer.moment_size()), owned);
    scatter(s.second, host_copy(optimizer.second_moment(), optimizer.moment_size()), owned);
    const auto master = own_master.host();
    const auto compute = own_compute.host();
    if (indexing.compute == Indexing::flat)
      s.compute = compute;  // what the others own is not touched
    else
      scatter(s.compute, compute, owned);
    for (const OwnedRange& r : owned)
      std::copy_n(master.begin() + (indexing.master == Indexing::flat ? r.flat : r.compact), r.size,
                  s.master.begin() + r.flat);
  }
  return s;
}

template <class U>
bool same_bytes(const std::vector<U>& a, const std::vector<U>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(U)) == 0;
}

template <class T>
void expect_same_state() {
  const ParameterTable table = small_table();
  const Inputs<Acc<T>> inputs(table);
  const State<T> expected = unsharded<T>(table, inputs);
  constexpr Indexing kFlat = Indexing::flat, kCompact = Indexing::compact;
  for (const int64_t shards : {1, 2, 3, 8, 300})
    for (const int64_t bucket : {int64_t{100}, int64_t{1} << 30})
      for (const AdamWIndexing& indexing :
           {AdamWIndexing{kFlat, kFlat, kFlat}, AdamWIndexing{kCompact, kFlat, kFlat},
            AdamWIndexing{kCompact, kCompact, kFlat}, AdamWIndexing{kCompact, kCompact, kCompact},
            AdamWIndexing{kFlat, kCompact, kCompact}}) {
        const Partition partition = make_partition(table, shards, bucket, BucketJoin::yes);
        const State<T> got = sharded<T>(table, inputs, partition, indexing);
        EXPECT_TRUE(same_bytes(got.master, expected.master)) << shards << " shards";
        EXPECT_TRUE(same_bytes(got.compute, expected.compute)) << shards << " shards";
        EXPECT_TRUE(same_bytes(got.first, expected.first)) << shards << " shards";
        EXPECT_TRUE(same_bytes(got.second, expected.second)) << shards << " shards";
      }
}

TEST(ShardedAdamW, IsTheUnshardedOneInFloat) {
  expect_same_state<float>();
}
TEST(ShardedAdamW, IsTheUnshardedOneInDouble) {
  expect_same_state<double>();
}
TEST(ShardedAdamW, IsTheUnshardedOneInBf16) {
  expect_same_state<bf16>();
}
TEST(ShardedAdamW, IsTheUnshardedOneInFp16) {
  expect_same_state<fp16>();
}

// Negative control: the comparison sees an update that went without one shard.
TEST(ShardedAdamW, ALostShardIsSeen) {
  const ParameterTable table = small_table();
  Partition partition = make_partition(table, 4, 1 << 30, BucketJoin::yes);
  partition.owned[2].pop_back();
  const Inputs<float> inputs(table);
  EXPECT_FALSE(same_bytes(sharded<float>(table, inputs, partition, {}).master,
                          unsharded<float>(table, inputs).master));
}

TEST(Segment, CoverEveryTensorOnceInOrder) {
  for (const int64_t ranks : {1, 2, 4})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const ParameterTable table = small_table(ranks, rank);
      std::vector<int64_t> covered(table.parameters.size(), 0);
      int64_t end = 0;
      for (const OptimizerSegment& s : make_segments(table)) {
        const ParameterSpec& p = table.parameters[static_cast<size_t>(s.parameter)];
        EXPECT_GE(s.offset, end);
        end = s.offset + s.size;
        EXPECT_GE(s.offset, p.offset);
        EXPECT_LE(end, p.offset + p.size());
        EXPECT_EQ(s.size % s.row, 0);
        EXPECT_EQ(s.decay == WeightDecay::apply, p.decay);
        covered[static_cast<size_t>(s.parameter)] += s.size;
      }
      for (size_t i = 0; i < covered.size(); ++i)
        EXPECT_EQ(covered[i], table.parameters[i].size()) << table.parameters[i].name;
    }
}

// On every rank together, each cell counts once.
TEST(Segment, EveryElementCountsOnce) {
  const ParameterTable whole = small_table();
  int64_t expected = 0;
  for (const ParameterSpec& p : whole.parameters) expected += p.global_size();
  for (const int64_t ranks : {1, 2, 4}) {
    int64_t counted = 0;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (const OptimizerSegment& s : make_segments(small_table(ranks, rank)))
        counted += s.counts ? s.size : 0;
    EXPECT_EQ(counted, expected) << ranks;
  }
}

TEST(Segment, QueriesKeysAndValuesAreSegmentsOfTheirOwn) {
  const ParameterTable table = small_table(4, 1);  // keys and values belong to rank 0 as well
  const ParameterSpec& qkv = table.find("layers.0.attention.qkv.weight");
  std::vector<OptimizerSegment> found;
  for (const OptimizerSegment& s : make_segments(table))
    if (table.parameters[static_cast<size_t>(s.parameter)].name == qkv.name) found.push_back(s);
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found[i].offset, qkv.offset + static_cast<int64_t>(i) * 6 * 20);
    EXPECT_EQ(found[i].size, 6 * 20);
    EXPECT_EQ(found[i].cell, 20);
    EXPECT_EQ(found[i].counts, i == 0);
  }
  for (const OptimizerSegment& s : make_segments(table)) {
    if (table.parameters[static_cast<size_t>(s.parameter)].name != "layers.0.mlp.down.weight")
      continue;
    EXPECT_EQ(s.row, 7);  // columns of one shard of 26
    EXPECT_EQ(s.cell, 7);
    EXPECT_EQ(s.size, 20 * 7);
  }
}

}  // namespace
}  // namespace espalier
