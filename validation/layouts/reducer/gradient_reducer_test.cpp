// SPDX-License-Identifier: Apache-2.0
// The reduction of gradients against the tree over all leaves, which every rank computes for
// itself: the same bytes on every number of ranks.
#include "parallel/gradient_reducer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "core/error.hpp"
#include "core/random.hpp"
#include "mpi_main.hpp"
#include "parallel/tree_sum.hpp"
#include "tensor/types.hpp"

namespace espalier {
namespace {

constexpr int64_t kLeaves = 8;
constexpr int64_t kSize = 40000;

// Blocks from the last to the first, as backward passes finish them: neighbours that merge, one
// that is cut, one that is empty, and a hole of 17 elements (padding) which stays as it is.
const std::vector<GradientSpan> kSpans = {{39000, 1000}, {38500, 500}, {38000, 500}, {10017, 27983},
                                          {10017, 0},    {5000, 5000}, {0, 5000}};
constexpr int64_t kHoleFirst = 10000, kHoleSize = 17;

// Values over seven decades, so that another order of additions gives other bits.
template <class Real>
const std::vector<Real>& leaf(int64_t index) {
  static std::map<int64_t, std::vector<Real>> made;
  std::vector<Real>& v = made[index];
  if (!v.empty()) return v;
  for (int64_t i = 0; i < kSize; ++i) {
    const auto at = static_cast<uint64_t>(index * kSize + i);
    const double power = 7.0 * random_uniform(5, hash_name("magnitude"), at);
    v.push_back(static_cast<Real>(random_normal(5, hash_name("leaf"), at) * std::pow(10.0, power)));
  }
  return v;
}

template <class Real, class Wire = Real>
std::vector<Real> tree_of(const std::vector<std::vector<Wire>>& leaves) {
  std::vector<const Wire*> pointers;
  for (const auto& l : leaves) pointers.push_back(l.data());
  std::vector<Real> sum(static_cast<size_t>(kSize));
  TreeSum<Real, Wire>()(pointers, sum.data(), kSize);
  return sum;
}

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
std::vector<Real> tree_of_all_leaves() {
  const Share share;
  std::vector<std::vector<Real>> all;
  for (int64_t k = 0; k < share.ranks * share.per_rank; ++k) all.push_back(leaf<Real>(k));
  return tree_of<Real>(all);
}

// Elements of spans that differ in any bit; the hole must hold what the rank put there.
template <class Real>
int64_t differing(const std::vector<Real>& got, const std::vector<Real>& expected) {
  int64_t count = 0;
  for (int64_t i = 0; i < kSize; ++i)
    if (i < kHoleFirst || i >= kHoleFirst + kHoleSize)
      count += std::memcmp(&got[static_cast<size_t>(i)], &expected[static_cast<size_t>(i)],
                           sizeof(Real)) != 0;
  return count;
}

template <class Real>
void run_step(GradientReducer<Real>& reducer, std::vector<Real>& gradients) {
  reducer.begin(gradients.data());
  for (int64_t s = 0; s < static_cast<int64_t>(kSpans.size()); ++s) {
    reducer.ready(s);
    reducer.progress();
  }
  reducer.finish();
}

template <class Real>
ReducerOptions options(int64_t bucket_bytes, ReduceTime time = ReduceTime::during_backward) {
  ReducerOptions o;
  o.bucket_bytes = bucket_bytes;
  o.wire = ElementTraits<Real>::kType;
  o.time = time;
  return o;
}

template <class Real>
void expect_tree_bits() {
  const Comm& world = test_session().world();
  const std::vector<Real> expected = tree_of_all_leaves<Real>();
  const std::vector<Real> own = contribution<Real>(world.rank());
  for (const int64_t bucket : {int64_t{3000}, int64_t{12000}, int64_t{1} << 20})
    for (const ReduceTime time : {ReduceTime::during_backward, ReduceTime::at_finish}) {
      GradientReducer<Real> reducer(world, kSpans, options<Real>(bucket, time));
      for (int step = 0; step < 2; ++step) {
        std::vector<Real> gradients = own;
        run_step(reducer, gradients);
        EXPECT_EQ(differing(gradients, expected), 0)
            << "buckets of " << bucket << ", step " << step;
        for (int64_t i = kHoleFirst; i < kHoleFirst + kHoleSize; ++i)
          EXPECT_EQ(gradients[static_cast<size_t>(i)], own[static_cast<size_t>(i)]) << i;
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
  const Comm& world = test_session().world();
  std::vector<float> gradients = contribution<float>(world.rank());
  if (world.rank() == world.size() - 1) std::fill(gradients.begin(), gradients.end(), 0.0f);
  GradientReducer<float> reducer(world, kSpans, options<float>(12000));
  run_step(reducer, gradients);
  EXPECT_GT(differing(gradients, tree_of_all_leaves<float>()), kSize / 2);
}

TEST(Reducer, RoundsForTheWireAndAddsInFloat) {
  const Comm& world = test_session().world();
  std::vector<float> gradients = contribution<float>(world.rank());
  ReducerOptions o = options<float>(12000);
  o.wire = ElementType::bf16;
  std::vector<float> expected = gradients;  // one rank sends nothing, so nothing is rounded
  if (world.size() > 1) {
    std::vector<std::vector<bf16>> sent;
    for (int r = 0; r < world.size(); ++r) {
      const std::vector<float> whole = contribution<float>(r);
      sent.emplace_back(whole.begin(), whole.end());
    }
    expected = tree_of<float, bf16>(sent);
    for (float& x : expected) x = bf16(x);
  }
  GradientReducer<float> reducer(world, kSpans, o);
  run_step(reducer, gradients);
  EXPECT_EQ(differing(gradients, expected), 0);
}

TEST(Reducer, SpansMayBeReadyInAnyOrder) {
  const Comm& world = test_session().world();
  std::vector<float> gradients = contribution<float>(world.rank());
  GradientReducer<float> reducer(world, kSpans, options<float>(9000));
  reducer.begin(gradients.data());
  const auto spans = static_cast<int64_t>(kSpans.size());
  for (int64_t k = 0; k < spans; ++k) {
    reducer.ready((k * 3 + world.rank()) % spans);  // another order on every rank
    reducer.progress();
  }
  reducer.finish();
  EXPECT_EQ(differing(gradients, tree_of_all_leaves<float>()), 0);
}

TEST(Reducer, OverlapsBetweenBeginAndFinish) {
  const Comm& world = test_session().world();
  if (world.size() == 1) GTEST_SKIP() << "nothing travels on one rank";
  const auto calls_before_finish = [&](ReduceTime time) {
    std::vector<float> gradients = contribution<float>(world.rank());
    GradientReducer<float> reducer(world, kSpans, options<float>(9000, time));
    world.take_stats();
    reducer.begin(gradients.data());
    for (int64_t s = 0; s < static_cast<int64_t>(kSpans.size()); ++s) reducer.ready(s);
    const int64_t calls = world.stats().calls;
    reducer.finish();
    return calls;
  };
  EXPECT_GT(calls_before_finish(ReduceTime::during_backward), 0);
  EXPECT_EQ(calls_before_finish(ReduceTime::at_finish), 0);
}

TEST(Reducer, CountsWhatItSends) {
  const Comm& world = test_session().world();
  for (const ElementType wire : {ElementType::fp32, ElementType::bf16}) {
    std::vector<float> gradients = contribution<float>(world.rank());
    ReducerOptions o = options<float>(12000);
    o.wire = wire;
    GradientReducer<float> reducer(world, kSpans, o);
    world.take_stats();
    run_step(reducer, gradients);
    const int64_t n = world.size();
    int64_t sent = world.take_stats().bytes;
    world.all_reduce(&sent, 1, ReduceOp::sum);
    // Over all ranks each element travels n - 1 times to its owner and n - 1 times from it.
    EXPECT_EQ(sent, 2 * (n - 1) * (kSize - kHoleSize) * element_bytes(wire));
  }
}

TEST(Reducer, ForetellsItsMemory) {
  const Comm& world = test_session().world();
  for (const int64_t bucket : {int64_t{3000}, int64_t{12000}, int64_t{1} << 20})
    for (const ElementType wire : {ElementType::fp32, ElementType::bf16}) {
      ReducerOptions o = options<float>(bucket);
      o.wire = wire;
      const GradientReducer<float> reducer(world, kSpans, o);
      EXPECT_EQ(reducer.buffer_bytes(),
                reducer_buffer_bytes(kSpans, o, ElementType::fp32, world.size()));
      EXPECT_EQ(reducer.buffer_bytes() > 0, world.size() > 1);
      // fp32 holds at most what the other ranks send of one bucket, in each lane; the slack is the
      // rounding of slices to whole vectors.
      if (wire == ElementType::fp32) {
        EXPECT_LE(reducer.buffer_bytes(), kReducerLanes * (bucket + 64 * world.size()));
      }
    }
}

TEST(Reducer, RefusesMisuse) {
  const Comm& world = test_session().world();
  std::vector<float> gradients(static_cast<size_t>(kSize), 1.0f);
  {
    GradientReducer<float> reducer(world, kSpans, options<float>(12000, ReduceTime::at_finish));
    EXPECT_THROW(reducer.ready(0), InternalError);
    EXPECT_THROW(reducer.finish(), InternalError);
    reducer.begin(gradients.data());
    EXPECT_THROW(reducer.begin(gradients.data()), InternalError);
    reducer.ready(0);
    EXPECT_THROW(reducer.ready(0), InternalError);
    EXPECT_THROW(reducer.ready(100), InternalError);
    EXPECT_THROW(reducer.finish(), InternalError);  // the other spans are missing
  }
  if (world.size() > 1) {
    ReducerOptions o = options<float>(12000);
    o.wire = ElementType::fp16;
    EXPECT_THROW(GradientReducer<float>(world, kSpans, o), InternalError);
    o.wire = ElementType::bf16;
    EXPECT_THROW(GradientReducer<double>(world, kSpans, o), InternalError);
  }
}

}  // namespace
}  // namespace espalier
