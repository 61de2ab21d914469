// SPDX-License-Identifier: Apache-2.0
// The local half of a sum over ranks, on host or device, against TreeSum on the host.
#include "parallel/rank_sum.hpp"

#include "reducer_problem.hpp"
#include "tensor/sums.hpp"

namespace espalier {
namespace {

constexpr int64_t kSize = 1003, kStride = 1016;

template <class T>
std::vector<T> values(int index) {
  std::vector<T> v;
  for (int64_t i = 0; i < kSize; ++i) {
    const auto at = static_cast<uint64_t>(index * kSize + i);
    const double power = 3.0 * random_uniform(9, hash_name("magnitude"), at);
    v.push_back(
        T(static_cast<Acc<T>>(random_normal(9, hash_name("piece"), at) * std::pow(10.0, power))));
  }
  return v;
}

// Elements that differ from the tree over `ranks`, of which number `rank` has its array apart (none
// has where rank == ranks).
template <class Wire, class Out>
int64_t wrong(int ranks, int rank) {
  std::vector<std::vector<Wire>> leaves;
  std::vector<Wire> received;
  for (int r = 0; r < ranks; ++r) {
    leaves.push_back(values<Wire>(r));
    if (r == rank) continue;
    received.insert(received.end(), leaves.back().begin(), leaves.back().end());
    received.resize(received.size() + kStride - kSize, Wire(static_cast<Acc<Wire>>(-1)));
  }
  std::vector<const Wire*> pointers;
  for (const auto& l : leaves) pointers.push_back(l.data());
  std::vector<Out> expected(kSize);
  TreeSum<Acc<Wire>, Wire>()(pointers, expected.data(), kSize);

  const DeviceList<Wire> own(rank < ranks ? leaves[static_cast<size_t>(rank)] : values<Wire>(0));
  const DeviceList<Wire> others(received);
  const DeviceList<Out> sum(kSize);
  const RankPieces<Wire> pieces{own.data(), others.data(), kStride, rank, ranks};
  sum_over_ranks<Wire, Out>(pieces, sum.data(), kSize);
  int64_t count = differing(sum.host(), expected);
  if constexpr (std::is_same_v<Wire, Out>) {
    sum_over_ranks<Wire, Out>(pieces, own.data(), kSize);
    count += differing(own.host(), expected);
  }
  return count;
}

template <class Wire, class Out>
void expect_tree() {
  const bool before = device::uses_tuned_kernels();
  for (const bool is_tuned : {true, false}) {
    device::set_tuned_kernels(is_tuned);
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 13, 130})  // the last: more than one launch takes
      for (const int rank : {0, ranks / 2, ranks - 1, ranks})
        EXPECT_EQ((wrong<Wire, Out>(ranks, rank)), 0)
            << ranks << " ranks, own " << rank << ", tuned " << is_tuned;
  }
  device::set_tuned_kernels(before);
}

TEST(RankSum, IsTheTreeInEveryType) {
  expect_tree<float, float>();
  expect_tree<double, double>();
  expect_tree<bf16, float>();
  expect_tree<bf16, bf16>();
  expect_tree<fp16, fp16>();
  expect_tree<float, bf16>();
  expect_tree<float, fp16>();
}

// Negative control: the values tell the tree from a running sum.
TEST(RankSum, TheValuesTellOrdersApart) {
  std::vector<std::vector<float>> leaves;
  std::vector<float> running(kSize, 0.0f);
  for (int r = 0; r < 13; ++r) {
    leaves.push_back(values<float>(r));
    for (size_t i = 0; i < running.size(); ++i) running[i] += leaves.back()[i];
  }
  EXPECT_GT(differing(running, tree_of<float>(leaves)), 100);
}

template <class From, class To>
int64_t wrongly_rounded() {
  const std::vector<From> from = values<From>(3);
  std::vector<To> expected;
  for (const From x : from) expected.push_back(static_cast<To>(x));
  const DeviceList<From> in(from);
  const DeviceList<To> out(kSize);
  round_values(in.data(), out.data(), kSize);
  return differing(out.host(), expected);
}

TEST(RankSum, RoundsToNearestEven) {
  const bool before = device::uses_tuned_kernels();
  for (const bool is_tuned : {true, false}) {
    device::set_tuned_kernels(is_tuned);
    EXPECT_EQ((wrongly_rounded<float, bf16>()), 0);
    EXPECT_EQ((wrongly_rounded<float, fp16>()), 0);
    EXPECT_EQ((wrongly_rounded<bf16, float>()), 0);
    EXPECT_EQ((wrongly_rounded<float, float>()), 0);
  }
  device::set_tuned_kernels(before);
}

}  // namespace
}  // namespace espalier
