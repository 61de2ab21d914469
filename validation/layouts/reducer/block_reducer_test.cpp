// SPDX-License-Identifier: Apache-2.0
// Sums of one block and micro-batch at a time, against sums that every rank computes for itself.
#include "parallel/block_reducer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "reducer_problem.hpp"
#include "tensor/sums.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int64_t kMicroBatches = 3;

Partition partition(int64_t shards, int64_t bucket = int64_t{1} << 20) {
  return make_partition(problem_table(), shards, bucket, BucketJoin::no);
}

template <class Real>
const std::vector<Real>& gradient(int64_t rank, int64_t micro_batch) {
  return leaf<Real>(rank * kMicroBatches + micro_batch);
}

// Micro-batch after micro-batch the tree over each group, then the tree over groups.
template <class Real>
std::vector<Real> expected_sum(const Groups& groups) {
  std::vector<std::vector<Real>> of_groups;
  for (int64_t g = 0; g < groups.replicas; ++g) {
    std::vector<Real> sum(leaf<Real>(0).size(), Real(0));
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      std::vector<std::vector<Real>> members;
      for (int64_t s = 0; s < groups.shards; ++s)
        members.push_back(gradient<Real>(g * groups.shards + s, m));
      const std::vector<Real> part = tree_of<Real>(members);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    of_groups.push_back(sum);
  }
  return tree_of<Real>(of_groups);
}

// A step as an engine runs it: `in_hand` blocks are filled before the first of them is submitted.
template <class Real>
std::vector<Real> run_step(const Groups& groups, const Partition& p, int64_t in_hand) {
  const DeviceList<Real> compact(p.compact_size(groups.shard.rank()));
  std::vector<LateList<Real>> gradients;
  for (int64_t m = 0; m < kMicroBatches; ++m)
    gradients.emplace_back(gradient<Real>(test_session().rank(), m));
  const auto sink = [&](int64_t, const OwnedRange& range, const Real* sum) {
    add_to(compact.data() + range.compact, sum, range.size);
  };
  BlockReducer<Real> reducer(groups.shard, groups.replica, p, ElementTraits<Real>::kType, sink);
  const auto blocks = static_cast<int64_t>(p.blocks.size());
  for (int64_t m = 0; m < kMicroBatches; ++m)
    for (int64_t first = blocks - 1; first >= 0; first -= in_hand) {
      std::vector<std::pair<int64_t, Real*>> held;
      for (int64_t b = first; b > std::max<int64_t>(first - in_hand, -1); --b)
        held.emplace_back(b, reducer.acquire(b));
      for (const auto& [b, scratch] : held) {
        const FlatRange span = p.blocks[static_cast<size_t>(b)];
        device::copy(scratch, gradients[static_cast<size_t>(m)].data() + span.offset,
                     span.size * static_cast<int64_t>(sizeof(Real)));
        reducer.submit(b, scratch);
        reducer.progress();
      }
    }
  reducer.drain();
  reducer.reduce_over_replicas(compact.data());
  return compact.host();
}

template <class Real>
int64_t wrong(const std::vector<Real>& compact, const std::vector<Real>& expected,
              const Partition& p, int64_t shard) {
  int64_t count = 0;
  for (const OwnedRange& r : p.owned_by(shard))
    count += differing(compact.data() + r.compact, expected.data() + r.flat, r.size);
  return count;
}

template <class Real>
void expect_sums() {
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    const std::vector<Real> expected = expected_sum<Real>(groups);
    for (const int64_t bucket : {int64_t{300}, int64_t{1} << 20})
      for (const int64_t in_hand : {1, 2, 3}) {
        const Partition p = partition(shards, bucket);
        const auto compact = run_step<Real>(groups, p, in_hand);
        EXPECT_EQ(wrong(compact, expected, p, groups.shard.rank()), 0)
            << shards << " shards, " << in_hand << " in hand";
      }
  }
}

TEST(BlockReducer, GivesEveryOwnerItsSumsInFloat) {
  expect_sums<float>();
}
TEST(BlockReducer, GivesEveryOwnerItsSumsInDouble) {
  expect_sums<double>();
}

TEST(BlockReducer, RoundsForTheWireAndAddsInFloat) {
  const Groups groups(test_session().size());
  const Partition p = partition(groups.shards);
  std::vector<float> expected = gradient<float>(0, 0);
  if (groups.shards > 1) {
    std::vector<std::vector<bf16>> sent;
    for (int64_t r = 0; r < groups.shards; ++r)
      sent.emplace_back(gradient<float>(r, 0).begin(), gradient<float>(r, 0).end());
    expected = tree_of<float, bf16>(sent);
  }
  const LateList<float> own(gradient<float>(test_session().rank(), 0));
  int64_t wrong_elements = 0, seen = 0;
  const auto sink = [&](int64_t, const OwnedRange& range, const float* sum) {
    wrong_elements +=
        differing(host_copy(sum, range.size).data(), expected.data() + range.flat, range.size);
    seen += range.size;
  };
  BlockReducer<float> reducer(groups.shard, groups.replica, p, ElementType::bf16, sink);
  for (size_t b = 0; b < p.blocks.size(); ++b) {
    float* scratch = reducer.acquire(static_cast<int64_t>(b));
    device::copy(scratch, own.data() + p.blocks[b].offset,
                 p.blocks[b].size * static_cast<int64_t>(sizeof(float)));
    reducer.submit(static_cast<int64_t>(b), scratch);
  }
  reducer.drain();
  EXPECT_EQ(wrong_elements, 0);
  EXPECT_EQ(test_session().world().all_reduce(seen, ReduceOp::sum), problem_table().flat_size);
}

TEST(BlockReducer, DeliversInTheOrderOfSubmission) {
  const Groups groups(test_session().size());
  const Partition p = partition(groups.shards);
  std::vector<int64_t> delivered, submitted;
  const auto sink = [&](int64_t block, const OwnedRange& range, const float* sum) {
    if (delivered.empty() || delivered.back() != block) delivered.push_back(block);
    EXPECT_EQ(host_copy(sum, 1)[0], static_cast<float>(groups.shards * block));
    EXPECT_GE(range.flat, p.blocks[static_cast<size_t>(block)].offset);
  };
  BlockReducer<float> reducer(groups.shard, groups.replica, p, ElementType::fp32, sink);
  for (const int64_t block : {6, 2, 4, 3, 6, 0, 4}) {
    float* scratch = reducer.acquire(block);
    check::write_to(
        scratch, std::vector<float>(static_cast<size_t>(p.blocks[static_cast<size_t>(block)].size),
                                    static_cast<float>(block)));
    reducer.submit(block, scratch);
    if (!p.owned_in_block(groups.shard.rank(), block).empty()) submitted.push_back(block);
  }
  reducer.drain();
  // The same block twice in a row, once those of which this rank owns nothing are left out.
  submitted.erase(std::unique(submitted.begin(), submitted.end()), submitted.end());
  EXPECT_EQ(delivered, submitted);
}

TEST(BlockReducer, ForetellsItsMemoryAndRefusesMisuse) {
  for (const int shards : group_sizes())
    for (const ElementType wire : {ElementType::fp32, ElementType::bf16}) {
      const Groups groups(shards);
      const Partition p = partition(shards);
      BlockReducer<float> reducer(groups.shard, groups.replica, p, wire,
                                  [](int64_t, const OwnedRange&, const float*) {});
      EXPECT_EQ(reducer.buffer_bytes(),
                block_reducer_buffer_bytes(p, wire, ElementType::fp32, groups.replicas));
      float* scratch = reducer.acquire(1);
      EXPECT_THROW(reducer.submit(2, scratch), InternalError);
      EXPECT_THROW(reducer.submit(1, scratch + 1), InternalError);
      reducer.acquire(0);
      reducer.acquire(0);
      EXPECT_THROW(reducer.acquire(0), InternalError);  // all held, none travels
      EXPECT_THROW(reducer.acquire(7), InternalError);
      reducer.submit(1, scratch);
      EXPECT_NE(reducer.acquire(0), nullptr);
      EXPECT_THROW(reducer.submit(1, scratch), InternalError);
    }
}

// Run with ESPALIER_TEST_BREAK=replica_reduction.
TEST(ReducerControl, AMissingReplicaLevelOfBlocksIsSeen) {
  const Groups groups(test_session().size() / 2);
  const Partition p = partition(groups.shards);
  const auto compact = run_step<float>(groups, p, 1);
  EXPECT_GT(wrong(compact, expected_sum<float>(groups), p, groups.shard.rank()), 1000);
}

}  // namespace
}  // namespace espalier
