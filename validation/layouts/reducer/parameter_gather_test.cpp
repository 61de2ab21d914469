// SPDX-License-Identifier: Apache-2.0
// Gathers: every rank ends with every owner's values, and gather is the transpose of the sum at
// owners.
#include "parallel/parameter_gather.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "parallel/gradient_reducer.hpp"
#include "reducer_problem.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

template <class T>
std::vector<T> values() {
  const std::vector<double>& source = leaf<double>(0);
  std::vector<T> v;
  for (const double x : source) v.push_back(T(static_cast<Acc<T>>(x * 1e-5)));
  return v;
}

template <class T>
std::vector<T> only_owned(const std::vector<T>& all, const Partition& p, int64_t shard) {
  std::vector<T> flat(all.size(), T(-1.0f));
  for (const OwnedRange& r : p.owned_by(shard))
    std::copy_n(all.begin() + r.flat, r.size, flat.begin() + r.flat);
  return flat;
}

template <class T>
std::vector<T> compacted(const std::vector<T>& all, const Partition& p, int64_t shard) {
  std::vector<T> compact(static_cast<size_t>(p.compact_size(shard)), T(-1.0f));
  for (const OwnedRange& r : p.owned_by(shard))
    std::copy_n(all.begin() + r.flat, r.size, compact.begin() + r.compact);
  return compact;
}

template <class T>
int64_t wrong_after_gather(const Groups& groups, const Partition& p) {
  const std::vector<T> expected = values<T>();
  const LateList<T> flat(only_owned(expected, p, groups.shard.rank()));
  ParameterGather<T>(groups.shard, p).gather_all(flat.data());
  return differing(flat.host(), expected);
}

// Block after block, one ahead.
template <class T>
int64_t wrong_after_blocks(const Groups& groups, const Partition& p) {
  const std::vector<T> expected = values<T>();
  const LateList<T> compact(compacted(expected, p, groups.shard.rank()));
  ParameterGather<T> gather(groups.shard, p);
  int64_t wrong = 0;
  std::vector<LateList<T>> buffers;
  for (const FlatRange& block : p.blocks)
    buffers.emplace_back(std::vector<T>(static_cast<size_t>(block.size), T(-2.0f)));
  Request requests[2];
  const auto start = [&](size_t block) {
    requests[block % 2] =
        gather.start(static_cast<int64_t>(block), compact.data(), buffers[block].data());
  };
  start(0);
  for (size_t block = 0; block < p.blocks.size(); ++block) {
    if (block + 1 < p.blocks.size()) start(block + 1);
    requests[block % 2].wait();
    wrong += differing(buffers[block].host().data(), expected.data() + p.blocks[block].offset,
                       p.blocks[block].size);
  }
  return wrong;
}

template <class T>
void expect_all_everywhere() {
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    for (const int64_t bucket : {int64_t{200}, int64_t{1} << 20})
      for (const BucketJoin join : {BucketJoin::yes, BucketJoin::no}) {
        const Partition p = make_partition(problem_table(), shards, bucket, join);
        EXPECT_EQ(wrong_after_gather<T>(groups, p), 0) << shards << " shards of " << bucket;
        EXPECT_EQ(wrong_after_blocks<T>(groups, p), 0) << shards << " shards of " << bucket;
      }
  }
}

TEST(Gather, BringsEveryOwnersValuesInFloat) {
  expect_all_everywhere<float>();
}
TEST(Gather, BringsEveryOwnersValuesInDouble) {
  expect_all_everywhere<double>();
}
TEST(Gather, BringsEveryOwnersValuesInBf16) {
  expect_all_everywhere<bf16>();
}
TEST(Gather, BringsEveryOwnersValuesInFp16) {
  expect_all_everywhere<fp16>();
}

// <gather x, y> over all ranks = <x, sum of y> over owners. Small integers: no sum rounds.
TEST(Gather, IsTheTransposeOfTheSumAtOwners) {
  const Groups groups(test_session().size());
  const Comm& shard = groups.shard;
  const Partition p = make_partition(problem_table(), groups.shards, 900, BucketJoin::yes);
  const auto size = static_cast<size_t>(problem_table().flat_size);
  const auto draw = [&](uint64_t seed, size_t i) {
    return static_cast<double>(random_bits(seed, 1, i) % 2001) - 1000.0;
  };
  std::vector<double> x(size), y(size);
  for (size_t i = 0; i < size; ++i) {
    x[i] = draw(1, i);
    y[i] = draw(2 + static_cast<uint64_t>(shard.rank()), i);
  }
  const LateList<double> gathered_list(only_owned(x, p, shard.rank())), summed_list(y);
  ParameterGather<double>(shard, p).gather_all(gathered_list.data());
  GradientReducer<double> reducer(
      shard, groups.replica, p,
      {ElementType::fp64, ReduceTime::at_finish, ReducerResult::at_owner});
  reducer.begin(summed_list.data());
  for (size_t b = 0; b < p.blocks.size(); ++b) reducer.ready(static_cast<int64_t>(b));
  reducer.finish();
  const std::vector<double> gathered = gathered_list.host(), summed = summed_list.host();
  double left = 0.0, right = 0.0;
  for (size_t i = 0; i < size; ++i) left += gathered[i] * y[i];
  for (const OwnedRange& r : p.owned_by(shard.rank()))
    for (int64_t i = r.flat; i < r.flat + r.size; ++i)
      right += x[static_cast<size_t>(i)] * summed[static_cast<size_t>(i)];
  left = shard.all_reduce(left, ReduceOp::sum);
  right = shard.all_reduce(right, ReduceOp::sum);
  EXPECT_EQ(left, right);
  EXPECT_NE(left, 0.0);
}

TEST(Gather, SendsWhatIsOwnedOnce) {
  for (const int shards : group_sizes()) {
    const Groups groups(shards);
    const Partition p = make_partition(problem_table(), shards, 900, BucketJoin::yes);
    const LateList<bf16> flat(values<bf16>());
    groups.shard.take_stats();
    ParameterGather<bf16>(groups.shard, p).gather_all(flat.data());
    const int64_t sent = groups.shard.take_stats().bytes;
    int64_t owned = 0;
    for (const OwnedRange& r : p.owned_by(groups.shard.rank())) owned += r.size;
    EXPECT_EQ(sent, 2 * owned * (shards - 1));
  }
}

TEST(Gather, RefusesMisuse) {
  const Groups groups(test_session().size());
  const Partition p = make_partition(problem_table(), groups.shards, 900, BucketJoin::yes);
  const Partition other = make_partition(problem_table(), groups.shards + 1, 900, BucketJoin::yes);
  EXPECT_THROW(ParameterGather<float>(groups.shard, other), InternalError);
  EXPECT_THROW(ParameterGather<float>(groups.shard, p).start(7, nullptr, nullptr), InternalError);
}

// Run with ESPALIER_TEST_BREAK=zero_gather: rank 0 must see that the last bucket did not come.
TEST(GatherControl, ALostGatherIsSeen) {
  const Groups groups(test_session().size());
  const Partition p = make_partition(problem_table(), groups.shards, 900, BucketJoin::yes);
  EXPECT_EQ(wrong_after_gather<float>(groups, p) > 0, groups.shard.rank() == 0);
  EXPECT_EQ(wrong_after_blocks<float>(groups, p) > 0, groups.shard.rank() == 0);
}

}  // namespace
}  // namespace espalier
