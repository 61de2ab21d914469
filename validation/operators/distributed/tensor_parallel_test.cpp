// SPDX-License-Identifier: Apache-2.0
// Communication along the tensor-parallel axis: sums in the tree over all shards, bit for bit, and
// each operator the transpose of its backward.
#include "parallel/tensor_parallel.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "../../device_list.hpp"
#include "../../mpi_main.hpp"
#include "core/random.hpp"
#include "parallel/tree_sum.hpp"

namespace espalier::check {
namespace {

constexpr int64_t kWidth = 5;

const Comm& world() {
  return test_session().world();
}

TensorSplit split_of(int64_t local_shards, bool sequence) {
  TensorSplit s;
  s.ranks = world().size();
  s.rank = world().rank();
  s.shards = s.ranks * local_shards;
  s.sequence = sequence;
  return s;
}

/// f(split, tokens) in every combination: tokens that divide, that do not, and fewer than shards.
template <class F>
void for_each_split(const F& f) {
  for (const int64_t local : {1, 2, 4})
    for (const bool sequence : {false, true})
      for (const int64_t tokens : {1, 3, 16, 29}) {
        SCOPED_TRACE(testing::Message() << local << " shards a rank, sequence " << sequence << ", "
                                        << tokens << " tokens");
        f(split_of(local, sequence), tokens);
      }
}

/// Small whole numbers, so that sums are exact in every order; the same for the same name anywhere.
template <class T>
std::vector<T> whole_numbers(int64_t size, int64_t name) {
  std::vector<T> v;
  for (int64_t i = 0; i < size; ++i)
    v.push_back(
        T(static_cast<Acc<T>>(static_cast<int64_t>(random_bits(3, 7000 + name, i) % 17) - 8)));
  return v;
}

/// Magnitudes over six decades: almost any other order of additions gives other bits.
template <class T>
std::vector<T> leaf(int64_t size, int64_t shard) {
  std::vector<T> v;
  for (int64_t i = 0; i < size; ++i) {
    const double power = 6.0 * random_uniform(4, 100 + shard, i) - 3.0;
    v.push_back(T(static_cast<Acc<T>>(random_normal(4, 200 + shard, i) * std::pow(10.0, power))));
  }
  return v;
}

template <class Out, class In>
std::vector<Out> tree_of(const std::vector<std::vector<In>>& leaves) {
  std::vector<const In*> pointers;
  for (const auto& l : leaves) pointers.push_back(l.data());
  std::vector<Out> sum(leaves[0].size());
  TreeSum<Acc<Out>, In>()(pointers, sum.data(), static_cast<int64_t>(sum.size()));
  return sum;
}

template <class T>
bool same_bits(const T* a, const T* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(T)) == 0;
}

/// This rank's result of reduce: all tokens, or its own.
template <class T, class C>
std::vector<T> reduced(const TensorSplit& split, const std::vector<C>& partial, int64_t tokens) {
  TensorParallel<T> tp(&world(), split);
  const DeviceList<C> in(partial);
  const DeviceList<T> out(split.tokens(tokens).count * kWidth);
  const DeviceList<C> received((split.ranks - 1) * split.local(tokens).count * kWidth);
  tp.template reduce<C>(in.data(), out.data(), tokens, kWidth, received.data());
  return out.host();
}

template <class T, class C>
int64_t wrong_sums() {
  int64_t wrong = 0;
  for_each_split([&](const TensorSplit& split, int64_t tokens) {
    std::vector<std::vector<C>> all, own;
    for (int64_t s = 0; s < split.shards; ++s) {
      all.push_back(leaf<C>(tokens * kWidth, s));
      if (s / split.local_shards() == split.rank) own.push_back(all.back());
    }
    // Sums travel unrounded, or one shard a rank in the compute type.
    if (!std::is_same_v<C, Acc<T>> && split.local_shards() > 1) return;
    const auto partial = own.size() == 1 ? own[0] : tree_of<C>(own);
    const auto found = reduced<T>(split, partial, tokens);
    const auto expected = tree_of<T>(all);
    const Range mine = split.tokens(tokens);
    wrong += !same_bits(found.data(), expected.data() + mine.first * kWidth, mine.count * kWidth);
  });
  return static_cast<int64_t>(world().all_reduce(static_cast<double>(wrong), ReduceOp::sum));
}

TEST(TensorParallel, SumsAreTheTreeOverAllShards) {
  EXPECT_EQ((wrong_sums<float, float>()), 0);
  EXPECT_EQ((wrong_sums<double, double>()), 0);
  EXPECT_EQ((wrong_sums<bf16, float>()), 0);
  EXPECT_EQ((wrong_sums<fp16, float>()), 0);
  EXPECT_EQ((wrong_sums<bf16, bf16>()), 0);
}

// Negative control: the leaves do tell a running sum from the tree.
TEST(TensorParallel, TheLeavesTellOrdersApart) {
  std::vector<std::vector<float>> leaves;
  for (int64_t s = 0; s < 8; ++s) leaves.push_back(leaf<float>(200, s));
  std::vector<float> running(200, 0.0f);
  for (const auto& l : leaves)
    for (size_t i = 0; i < 200; ++i) running[i] += l[i];
  EXPECT_NE(running, tree_of<float>(leaves));
}

TEST(TensorParallel, SmallSumsAreTheSameOnEveryRank) {
  for (const int64_t local : {1, 2}) {
    const TensorSplit split = split_of(local, true);
    TensorParallel<float> tp(&world(), split);
    std::vector<std::vector<float>> all;
    for (int64_t r = 0; r < split.ranks; ++r) all.push_back(leaf<float>(77, r));
    const DeviceList<float> list(all[static_cast<size_t>(split.rank)]);
    tp.sum(list.data(), 77);
    const std::vector<float> data = list.host();
    const auto expected = tree_of<float>(all);
    EXPECT_TRUE(same_bits(data.data(), expected.data(), 77));
    tp.sum(nullptr, 0);
  }
}

double dot_over_ranks(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += a[i] * b[i];
  return world().all_reduce(sum, ReduceOp::sum);
}

std::vector<double> gathered(const TensorSplit& split, const std::vector<double>& own,
                             int64_t tokens) {
  TensorParallel<double> tp(&world(), split);
  const DeviceList<double> mine(own);
  const DeviceList<double> all(std::vector<double>(static_cast<size_t>(tokens * kWidth), -99.0));
  tp.gather(mine.data(), all.data(), tokens, kWidth);
  return all.host();
}

/// Splits for which <reduce x, u> != <x, gather u>, or, where tokens are not cut and gradients are
/// simply used, sum over ranks of <x, u>.
int64_t broken_adjoints() {
  int64_t broken = 0;
  for_each_split([&](const TensorSplit& split, int64_t tokens) {
    const int64_t own = split.tokens(tokens).count * kWidth;
    const auto x = whole_numbers<double>(tokens * kWidth, split.rank);
    const auto y = reduced<double>(split, x, tokens);
    if (split.sequence) {
      const auto u = whole_numbers<double>(own, 50 + split.rank);
      broken += dot_over_ranks(y, u) != dot_over_ranks(x, gathered(split, u, tokens));
    } else {
      const auto u = whole_numbers<double>(own, 50);  // the same on all
      broken += dot_over_ranks(y, u) != static_cast<double>(split.ranks) * dot_over_ranks(x, u);
    }
  });
  return broken;
}

TEST(TensorParallel, GatherIsTheTransposeOfTheSum) {
  EXPECT_EQ(broken_adjoints(), 0);
}

TEST(TensorParallel, GatherBringsEveryRanksTokens) {
  for_each_split([](const TensorSplit& split, int64_t tokens) {
    if (!split.sequence) return;
    const auto all = whole_numbers<double>(tokens * kWidth, 1);
    const Range own = split.local(tokens);
    const std::vector<double> mine(all.begin() + own.first * kWidth,
                                   all.begin() + own.last() * kWidth);
    EXPECT_EQ(gathered(split, mine, tokens), all);
  });
}

template <class E>
void check_share() {
  constexpr int64_t kCount = 6;
  for (const int64_t local : {1, 2, 4}) {
    const TensorSplit split = split_of(local, false);
    TensorParallel<E> tp(&world(), split);
    for (int64_t sharers = 1; sharers <= split.shards; ++sharers) {
      // Runs of neighbours on whole ranks, as key heads and the vocabulary ask for.
      if (split.shards % sharers != 0 || (sharers > local && sharers % local != 0)) continue;
      const int64_t run = std::max(sharers, local);  // entries that this rank deals with
      const int64_t first = split.first_shard() / run * run;
      std::vector<E> all(static_cast<size_t>(run * kCount), E(Acc<E>(-99)));
      std::vector<E> expected = all;
      for (int64_t i = 0; i < run; ++i) {
        const auto values = whole_numbers<E>(kCount, first + i);
        const bool mine = (first + i) / local == split.rank;
        if (mine) std::copy(values.begin(), values.end(), all.begin() + i * kCount);
        std::copy(values.begin(), values.end(), expected.begin() + i * kCount);
      }
      const DeviceList<E> list(all);
      tp.template share<E>(list.data(), kCount, sharers);
      all = list.host();
      EXPECT_TRUE(same_bits(all.data(), expected.data(), run * kCount))
          << sharers << " sharers, " << local << " shards a rank";
    }
  }
}
TEST(TensorParallel, ShareBringsTheShardsOfItsRun) {
  check_share<float>();
  check_share<double>();
  check_share<bf16>();
}

// The transpose of a share over all shards: the sum over ranks, of which each keeps its part.
TEST(TensorParallel, ShareIsTheTransposeOfTheSumOfItsParts) {
  constexpr int64_t kCount = 4;
  for (const int64_t local : {1, 2}) {
    const TensorSplit split = split_of(local, false);
    TensorParallel<double> tp(&world(), split);
    const int64_t size = split.shards * kCount, first = split.first_shard() * kCount;
    const auto x = whole_numbers<double>(local * kCount, split.rank);
    const auto u = whole_numbers<double>(size, 80 + split.rank);
    std::vector<double> all(static_cast<size_t>(size), 0.0), sum = u;
    std::copy(x.begin(), x.end(), all.begin() + first);
    const DeviceList<double> all_list(all), sum_list(sum);
    tp.share(all_list.data(), kCount, split.shards);
    tp.sum(sum_list.data(), size);
    all = all_list.host();
    sum = sum_list.host();
    const std::vector<double> part(sum.begin() + first, sum.begin() + first + local * kCount);
    EXPECT_EQ(dot_over_ranks(all, u), dot_over_ranks(x, part));
  }
}

// One rank without a communicator: copies.
TEST(TensorParallel, OneRankNeedsNobody) {
  TensorSplit alone;
  alone.sequence = true;
  TensorParallel<float> tp(nullptr, alone);
  const auto x = leaf<float>(3 * kWidth, 0);
  const auto size = static_cast<int64_t>(x.size());
  const DeviceList<float> in(x), out(size), all(size), sum(x), shared(x);
  tp.reduce<float>(in.data(), out.data(), 3, kWidth, nullptr);
  tp.gather(in.data(), all.data(), 3, kWidth);
  tp.sum(sum.data(), 3 * kWidth);
  tp.share(shared.data(), 3 * kWidth, 1);
  for (const auto* result : {&out, &all, &sum, &shared}) EXPECT_EQ(result->host(), x);
}

// Run with ESPALIER_TEST_BREAK=tensor_sum or sequence_gather.
TEST(TensorParallelControl, WhatIsLeftOutIsNoticed) {
  const char* const broken = std::getenv("ESPALIER_TEST_BREAK");
  ASSERT_NE(broken, nullptr);
  EXPECT_GT(broken_adjoints(), 0) << broken;
  if (broken == std::string("tensor_sum")) {
    EXPECT_GT((wrong_sums<float, float>()), 0);
  }
}

}  // namespace
}  // namespace espalier::check
