// SPDX-License-Identifier: Apache-2.0
// The fixed order in which gradients of micro-batches are added, on one rank and split over many.
#include "engine/gradient_tree.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "../device_list.hpp"
#include "core/error.hpp"
#include "draw.hpp"
#include "tensor/sums.hpp"

namespace espalier::check {
namespace {

constexpr int64_t kSize = 37;
using Values = std::vector<float>;

/// Gradients of n micro-batches of very different sizes, so that the order shows in the bits.
std::vector<Values> draw_gradients(int64_t n) {
  Draw draw(n);
  std::vector<Values> all(n, Values(kSize));
  for (auto& g : all)
    for (auto& x : g) x = static_cast<float>(draw.normal() * std::exp(4.0 * draw.normal()));
  return all;
}

Values add(Values left, const Values& right) {
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

/// The tree by its definition: halves while the count is even, then one after the other.
Values reference(const std::vector<Values>& g, int64_t first, int64_t count) {
  if (count % 2 == 0)
    return add(reference(g, first, count / 2), reference(g, first + count / 2, count / 2));
  Values sum(kSize, 0.0f);
  for (int64_t i = 0; i < count; ++i) sum = add(sum, g[first + i]);
  return sum;
}

/// Adds micro-batch `m` to one block's spans of the current buffer.
void add_micro_batch(GradientTree<float>& tree, int64_t block,
                     const GradientTree<float>::Spans& spans, const Values& gradient) {
  const DeviceList<float> added(gradient);
  for (const FlatRange& span : spans)
    add_to(tree.current(block) + span.offset, added.data() + span.offset, span.size);
  tree.next(block);
}

/// One block in two parts; the rest of the buffer belongs to nobody.
Values run_tree(const std::vector<Values>& g, int64_t first, int64_t count, int levels) {
  const GradientTree<float>::Spans spans = {{20, kSize - 20}, {0, 20}};
  GradientTree<float> tree(kSize + 3, levels, {spans}, {spans});
  for (int step = 0; step < 2; ++step) {  // the second step must find no trace of the first
    tree.begin(count);
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(tree.done(0), i);
      add_micro_batch(tree, 0, spans, g[first + i]);
    }
    EXPECT_EQ(tree.done(0), count);
    EXPECT_EQ(tree.current(0), tree.total());
    EXPECT_EQ(host_copy(tree.total() + kSize, 3), Values(3, 0.0f));
  }
  return host_copy(tree.total(), kSize);
}

TEST(GradientTree, LevelsAreTheFactorsOfTwo) {
  for (int64_t n = 1; n <= 64; ++n) {
    const int levels = tree_levels(n);
    EXPECT_EQ(n % (int64_t{1} << levels), 0);
    EXPECT_EQ((n >> levels) % 2, 1);
  }
}

TEST(GradientTree, SumsAsTheRecursiveDefinition) {
  for (int64_t n = 1; n <= 16; ++n) {
    const auto g = draw_gradients(n);
    EXPECT_EQ(run_tree(g, 0, n, tree_levels(n)), reference(g, 0, n)) << n;
  }
}

TEST(GradientTree, OtherOrdersGiveOtherBits) {
  const auto g = draw_gradients(16);
  EXPECT_NE(run_tree(g, 0, 16, 0), reference(g, 0, 16));
  auto swapped = g;
  std::swap(swapped[3], swapped[4]);
  EXPECT_NE(run_tree(swapped, 0, 16, 4), reference(g, 0, 16));
}

TEST(GradientTree, NoLevelsAccumulateInOneRun) {
  for (const int64_t n : {1, 2, 6, 16}) {
    const auto g = draw_gradients(n);
    Values sum(kSize, 0.0f);
    for (const auto& x : g) sum = add(sum, x);
    EXPECT_EQ(run_tree(g, 0, n, 0), sum);
  }
}

// Every rank sums its share, then the ranks' sums are added pairwise, neighbours first.
TEST(GradientTree, AnyNumberOfRanksGivesTheSameBits) {
  for (const int64_t n : {8, 16, 24, 40}) {
    const auto g = draw_gradients(n);
    const Values whole = run_tree(g, 0, n, tree_levels(n));
    for (const int64_t ranks : {1, 2, 4, 8}) {
      const int64_t share = n / ranks;
      std::vector<Values> sums;
      for (int64_t r = 0; r < ranks; ++r)
        sums.push_back(run_tree(g, r * share, share, tree_levels(share)));
      for (; sums.size() > 1; sums.resize(sums.size() / 2))
        for (size_t i = 0; i < sums.size() / 2; ++i) sums[i] = add(sums[2 * i], sums[2 * i + 1]);
      EXPECT_EQ(sums[0], whole) << n << " micro-batches on " << ranks << " ranks";
    }
  }
}

// As chunks of a pipeline do: one block may be done before another one begins, or run any number of
// micro-batches ahead of it. Both have spans between each other's, and one has none at all (ZeRO).
TEST(GradientTree, BlocksGoThroughTheirMicroBatchesOnTheirOwn) {
  const std::vector<GradientTree<float>::Spans> blocks = {
      {{0, 5}, {17, 9}}, {{5, 12}, {26, 11}}, {}};
  for (const int64_t n : {1, 2, 4, 6, 8, 12, 16})
    for (const int levels : {0, tree_levels(n)})
      for (uint64_t seed = 0; seed < 8; ++seed) {
        const auto g = draw_gradients(n);
        const Values expected = levels == 0 ? run_tree(g, 0, n, 0) : reference(g, 0, n);
        GradientTree<float> tree(kSize, levels, blocks, blocks);
        Draw draw(seed);
        // seed 0: the blocks one after the other; 1: in turns; else at random
        tree.begin(n);
        for (int64_t left = 3 * n, turn = 0; left > 0; ++turn) {
          int64_t b = seed == 0 ? turn / n : seed == 1 ? turn % 3 : draw.integer(0, 2);
          if (tree.done(b) == n) continue;
          add_micro_batch(tree, b, blocks[b], g[tree.done(b)]);
          --left;
        }
        for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(tree.current(b), tree.total());
        EXPECT_EQ(host_copy(tree.total(), kSize), expected) << n << " seed " << seed;
      }
}

// Zero in front and behind, left as it was between them, and overwritten there by whoever finds the
// run new.
TEST(GradientTree, ARunIsNewUntilSomethingIsAdded) {
  const GradientTree<float>::Spans spans = {{0, kSize}}, zeroed = {{0, 6}, {30, kSize - 30}};
  for (const int64_t n : {1, 2, 3, 6, 8})
    for (const int levels : {0, tree_levels(n)}) {
      const auto g = draw_gradients(n);
      const Values expected = levels == 0 ? run_tree(g, 0, n, 0) : reference(g, 0, n);
      GradientTree<float> tree(kSize, levels, {spans}, {zeroed});
      for (int step = 0; step < 2; ++step) {
        tree.begin(n);
        int runs = 0;
        for (int64_t i = 0; i < n; ++i) {
          const DeviceList<float> added(g[i]);
          Values before = host_copy(tree.current(0), kSize);
          if (tree.is_new(0)) {
            ++runs;
            for (const FlatRange& z : zeroed)
              for (int64_t j = z.offset; j < z.last(); ++j) EXPECT_EQ(before[j], 0.0f) << j;
            std::fill(before.begin() + 6, before.begin() + 30, 0.0f);
            write_to(tree.current(0), before);
            if (i % 2 == 0) tree.set_used(0);
            EXPECT_EQ(tree.is_new(0), i % 2 != 0);
          }
          add_to(tree.current(0), added.data(), kSize);
          tree.next(0);
        }
        EXPECT_EQ(runs, 1 << levels);
        EXPECT_FALSE(tree.is_new(0));
        EXPECT_EQ(host_copy(tree.total(), kSize), expected) << n;
      }
    }
}

TEST(GradientTree, RefusesACountThatDoesNotFit) {
  EXPECT_THROW(GradientTree<float>(kSize, 2, {{{0, kSize}}}, {}), InternalError);
  GradientTree<float> tree(kSize, 2, {{{0, kSize}}}, {{{0, kSize}}});
  EXPECT_THROW(tree.begin(6), InternalError);
  EXPECT_THROW(tree.begin(0), InternalError);
  tree.begin(4);
  for (int i = 0; i < 4; ++i) tree.next(0);
  EXPECT_THROW(tree.next(0), InternalError);
}

}  // namespace
}  // namespace espalier::check
