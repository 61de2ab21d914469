// SPDX-License-Identifier: Apache-2.0
// The reduction of gradients against the tree over all leaves, which every rank computes for
// itself: the same bytes on every number of ranks and in every division into groups.
#include "parallel/gradient_reducer.hpp"

#include "blueprint/communication_buffers.hpp"
#include "core/error.hpp"
#include "reducer_problem.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int64_t kLeaves = 8;
constexpr ReducerResult kResults[] = {ReducerResult::everywhere, ReducerResult::at_owner};

// Which leaves the ranks hold: 8 in all where that is a multiple of the ranks, else one a rank.
struct Share {
  int64_t ranks = test_session().size();
  int64_t per_rank = kLeaves % ranks == 0 ? kLeaves / ranks : 1;
};

// What rank r brings: the tree over its own leaves, as its micro-batches leave it.
template <class Real>
std::vector<Real> contribution(int64_t rank) {
  const Share share;
  std::vector<std::vector<Real>> own;
  for (int64_t k = 0; k < share.per_rank; ++k) own.push_back(leaf<Real>(rank * share.per_rank + k));
  return tree_of<Real>(own);
}
template <class Real>
std::vector<Real> contribution() {
  return contribution<Real>(test_session().rank());
}

template <class Real>
const std::vector<Real>& tree_of_all_leaves() {
  static const std::vector<Real> sum = [] {
    const Share share;
    std::vector<std::vector<Real>> all;
    for (int64_t k = 0; k < share.ranks * share.per_rank; ++k) all.push_back(leaf<Real>(k));
    return tree_of<Real>(all);
  }();
  return sum;
}

Partition partition(int64_t shards, int64_t bucket = 2500) {
  return make_partition(problem_table(), shards, bucket, BucketJoin::yes);
}

template <class Real>
ReducerOptions options(ReducerResult result = ReducerResult::everywhere,
                       ReduceTime time = ReduceTime::during_backward) {
  return {ElementTraits<Real>::kType, time, result};
}

template <class Real>
void run_step(GradientReducer<Real>& reducer, std::vector<Real>& gradients) {
  const LateList<Real> list(gradients);
  reducer.begin(list.data());
  for (auto b = static_cast<int64_t>(problem_table().blocks.size()) - 1; b >= 0; --b) {
    reducer.ready(b);
    reducer.progress();
  }
  reducer.finish();
  gradients = list.host();
}

// Elements that must be right and are not.
template <class Real>
int64_t wrong(const std::vector<Real>& got, const std::vector<Real>& expected, const Partition& p,
              int64_t shard, ReducerResult result) {
  if (result == ReducerResult::everywhere) return differing(got, expected);
  int64_t count = 0;
  for (const OwnedRange& r : p.owned_by(shard))
    count += differing(got.data() + r.flat, expected.data() + r.flat, r.size);
  return count;
}

template <class Real>
void expect_tree_bits() {
  const std::vector<Real> own = contribution<Real>();
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    for (const int64_t bucket : {int64_t{300}, int64_t{1} << 20})
      for (const ReduceTime time : {ReduceTime::during_backward, ReduceTime::at_finish})
        for (const ReducerResult result : kResults) {
          const Partition p = partition(shards, bucket);
          GradientReducer<Real> reducer(groups.shard, groups.replica, p,
                                        options<Real>(result, time));
          for (int step = 0; step < 2; ++step) {
            std::vector<Real> gradients = own;
            run_step(reducer, gradients);
            EXPECT_EQ(wrong(gradients, tree_of_all_leaves<Real>(), p, groups.shard.rank(), result),
                      0)
                << shards << " shards, buckets of " << bucket << ", step " << step;
          }
        }
  }
}

TEST(Reducer, GivesTheBitsOfTheTreeInFloat) {
  expect_tree_bits<float>();
}
TEST(Reducer, GivesTheBitsOfTheTreeInDouble) {
  expect_tree_bits<double>();
}

// Negative control: without the contribution of one rank the comparison above must fail.
TEST(Reducer, ALostContributionIsSeen) {
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    const Partition p = partition(shards);
    std::vector<float> gradients = contribution<float>();
    if (test_session().rank() == test_session().size() - 1)
      std::fill(gradients.begin(), gradients.end(), 0.0f);
    GradientReducer<float> reducer(groups.shard, groups.replica, p, options<float>());
    run_step(reducer, gradients);
    EXPECT_GT(differing(gradients, tree_of_all_leaves<float>()),
              static_cast<int64_t>(gradients.size()) / 2);
  }
}

std::vector<bf16> rounded(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// One level of the sum: values are rounded where they travel, sums are not.
std::vector<float> level_sum(const std::vector<std::vector<float>>& values) {
  if (values.size() == 1) return values[0];
  std::vector<std::vector<bf16>> sent;
  for (const auto& v : values) sent.push_back(rounded(v));
  return tree_of<float, bf16>(sent);
}

void round_all(std::vector<float>& values) {
  for (float& x : values) x = bf16(x);
}

TEST(Reducer, RoundsForTheWireAndAddsInFloat) {
  for (const int shards : group_sizes())
    for (const ReducerResult result : kResults) {
      const Groups groups(shards);
      std::vector<std::vector<float>> sums;
      for (int64_t g = 0; g < groups.replicas; ++g) {
        std::vector<std::vector<float>> members;
        for (int64_t s = 0; s < shards; ++s) members.push_back(contribution<float>(g * shards + s));
        sums.push_back(level_sum(members));
      }
      std::vector<float> expected = level_sum(sums);
      const bool travels_last =
          groups.replicas > 1 || (shards > 1 && result == ReducerResult::everywhere);
      if (travels_last) round_all(expected);
      const Partition p = partition(shards);
      ReducerOptions o = options<float>(result);
      o.wire = ElementType::bf16;
      GradientReducer<float> reducer(groups.shard, groups.replica, p, o);
      std::vector<float> gradients = contribution<float>();
      run_step(reducer, gradients);
      EXPECT_EQ(wrong(gradients, expected, p, groups.shard.rank(), result), 0) << shards;
    }
}

TEST(Reducer, BlocksMayBeReadyInAnyOrder) {
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    const Partition p = partition(shards);
    const LateList<float> gradients(contribution<float>());
    GradientReducer<float> reducer(groups.shard, groups.replica, p, options<float>());
    reducer.begin(gradients.data());
    const auto blocks = static_cast<int64_t>(p.blocks.size());
    ASSERT_EQ(blocks, 7);
    for (int64_t k = 0; k < blocks; ++k) {
      reducer.ready((k * 3 + test_session().rank()) % blocks);  // another order on every rank
      reducer.progress();
    }
    reducer.finish();
    EXPECT_EQ(differing(gradients.host(), tree_of_all_leaves<float>()), 0);
  }
}

TEST(Reducer, OverlapsBetweenBeginAndFinish) {
  if (test_session().size() == 1) GTEST_SKIP() << "nothing travels on one rank";
  const Groups groups(test_session().size());
  const Partition p = partition(groups.shards);
  const auto calls_before_finish = [&](ReduceTime time) {
    const LateList<float> gradients(contribution<float>());
    GradientReducer<float> reducer(groups.shard, groups.replica, p,
                                   options<float>(ReducerResult::everywhere, time));
    groups.shard.take_stats();
    reducer.begin(gradients.data());
    for (size_t b = 0; b < p.blocks.size(); ++b) reducer.ready(static_cast<int64_t>(b));
    device::Stream::compute().synchronize();  // a bucket starts when the device has filled it
    reducer.progress();
    const int64_t calls = groups.shard.stats().calls;
    reducer.finish();
    return calls;
  };
  EXPECT_GT(calls_before_finish(ReduceTime::during_backward), 0);
  EXPECT_EQ(calls_before_finish(ReduceTime::at_finish), 0);
}

TEST(Reducer, CountsWhatItSends) {
  for (const int shards : group_sizes())
    for (const ElementType wire : {ElementType::fp32, ElementType::bf16})
      for (const ReducerResult result : kResults) {
        const Groups groups(shards);
        const Partition p = partition(shards);
        ReducerOptions o = options<float>(result);
        o.wire = wire;
        GradientReducer<float> reducer(groups.shard, groups.replica, p, o);
        groups.shard.take_stats();
        groups.replica.take_stats();
        std::vector<float> gradients = contribution<float>();
        run_step(reducer, gradients);
        const int64_t own = groups.shard.take_stats().bytes + groups.replica.take_stats().bytes;
        const int64_t sent = test_session().world().all_reduce(own, ReduceOp::sum);
        // Over a group each element travels S - 1 times to its owner and as often from it; over
        // the replicas R - 1 times and back.
        const int64_t ways = result == ReducerResult::everywhere ? 2 : 1;
        const int64_t times = ways * (shards - 1) * groups.replicas + 2 * (groups.replicas - 1);
        EXPECT_EQ(sent, times * static_cast<int64_t>(gradients.size()) * element_bytes(wire));
      }
}

TEST(Reducer, ForetellsItsMemory) {
  for (const int shards : group_sizes())
    for (const int64_t bucket : {int64_t{700}, int64_t{2500}, int64_t{1} << 20})
      for (const ElementType wire : {ElementType::fp32, ElementType::bf16}) {
        const Groups groups(shards);
        const Partition p = partition(shards, bucket);
        ReducerOptions o = options<float>();
        o.wire = wire;
        const GradientReducer<float> reducer(groups.shard, groups.replica, p, o);
        EXPECT_EQ(reducer.buffer_bytes(),
                  reducer_buffer_bytes(p, wire, ElementType::fp32, groups.replicas));
        EXPECT_EQ(reducer.buffer_bytes() > 0, test_session().size() > 1);
      }
}

TEST(Reducer, RefusesMisuse) {
  const Groups groups(test_session().size());
  const Partition p = partition(groups.shards);
  const DeviceList<float> gradients(std::vector<float>(leaf<float>(0).size(), 1.0f));
  const auto make = [&](const ReducerOptions& o) {
    return std::make_unique<GradientReducer<float>>(groups.shard, groups.replica, p, o);
  };
  {
    const auto reducer = make(options<float>(ReducerResult::everywhere, ReduceTime::at_finish));
    EXPECT_THROW(reducer->ready(0), InternalError);
    EXPECT_THROW(reducer->finish(), InternalError);
    reducer->begin(gradients.data());
    EXPECT_THROW(reducer->begin(gradients.data()), InternalError);
    reducer->ready(0);
    EXPECT_THROW(reducer->ready(0), InternalError);
    EXPECT_THROW(reducer->ready(100), InternalError);
    EXPECT_THROW(reducer->finish(), InternalError);  // the other blocks are missing
  }
  const Partition other = partition(groups.shards + 1);
  EXPECT_THROW(GradientReducer<float>(groups.shard, groups.replica, other, options<float>()),
               InternalError);
  if (test_session().size() > 1) {
    ReducerOptions o = options<float>();
    o.wire = ElementType::fp16;
    EXPECT_THROW(make(o), InternalError);
    o.wire = ElementType::bf16;
    EXPECT_THROW(GradientReducer<double>(groups.shard, groups.replica, p, o), InternalError);
  }
}

// Run with ESPALIER_TEST_BREAK=replica_reduction: the sum of one group must not pass for that of
// all.
TEST(ReducerControl, AMissingReplicaLevelIsSeen) {
  const Groups groups(test_session().size() / 2);
  const Partition p = partition(groups.shards);
  std::vector<float> gradients = contribution<float>();
  GradientReducer<float> reducer(groups.shard, groups.replica, p, options<float>());
  run_step(reducer, gradients);
  EXPECT_GT(differing(gradients, tree_of_all_leaves<float>()),
            static_cast<int64_t>(gradients.size()) / 2);
}

}  // namespace
}  // namespace espalier
