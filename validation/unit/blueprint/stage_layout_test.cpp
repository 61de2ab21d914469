// SPDX-License-Identifier: Apache-2.0
// Which blocks a stage holds: against cases by hand and against trying all there are.
#include "blueprint/stage_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "blueprint/blueprint.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

Config config_of(int64_t layers, int64_t ranks, int64_t chunks = 1) {
  Config c;
  c.model.vocab_size = 50304;
  c.model.hidden_size = 768;
  c.model.intermediate_size = 3072;
  c.model.num_layers = layers;
  c.model.num_heads = c.model.num_kv_heads = 12;
  c.model.head_dim = 64;
  c.batch.seq_length = 1024;
  c.grid.pipeline_parallel = ranks;
  c.grid.virtual_stages = chunks;
  return c;
}

std::vector<int64_t> counts(const std::vector<StageRange>& ranges) {
  std::vector<int64_t> result;
  int64_t first = 0;
  for (const StageRange& range : ranges) {
    EXPECT_EQ(range.first, first);
    first = range.last;
    result.push_back(range.last - range.first);
  }
  return result;
}

using Counts = std::vector<int64_t>;

double slowest(const ModelCosts& costs, const std::vector<StageRange>& ranges, int64_t ranks) {
  const std::vector<double> sums = rank_costs(costs, ranges, ranks);
  return *std::max_element(sums.begin(), sums.end());
}

// The least over all ways to cut the layers.
double least_of_all(const ModelCosts& costs, int64_t ranks, int64_t chunks) {
  const auto layers = static_cast<int64_t>(costs.layers.size());
  double least = 1e300;
  std::vector<StageRange> ranges;
  const std::function<void(int64_t)> cut = [&](int64_t first) {
    const auto left = ranks * chunks - static_cast<int64_t>(ranges.size());
    if (left == 0) {
      if (first == layers) least = std::min(least, slowest(costs, ranges, ranks));
      return;
    }
    for (int64_t last = first + 1; last <= layers - (left - 1); ++last) {
      ranges.push_back({first, last});
      cut(last);
      ranges.pop_back();
    }
  };
  cut(0);
  return least;
}

TEST(StageLayout, OneStageHoldsAll) {
  Config c = config_of(5, 1);
  EXPECT_EQ(counts(stage_ranges(c)), Counts({5}));
  c.grid.virtual_stages = 0;
  c.grid.stage_balance = StageBalance::even;
  EXPECT_EQ(counts(stage_ranges(c)), Counts({5}));
}

TEST(StageLayout, ListedOrEven) {
  Config c = config_of(10, 4);
  c.grid.stage_balance = StageBalance::even;
  EXPECT_EQ(counts(stage_ranges(c)), Counts({3, 3, 2, 2}));
  c.grid.stage_blocks = {4, 3, 2, 1};
  EXPECT_EQ(counts(stage_ranges(c)), Counts({4, 3, 2, 1}));
  c.grid.stage_blocks = {4, 3, 2};
  EXPECT_THROW(stage_ranges(c), InternalError);
  c.grid.stage_blocks = {4, 3, 2, 2};
  EXPECT_THROW(stage_ranges(c), InternalError);
  EXPECT_THROW(stage_ranges(config_of(3, 4)), InternalError);
}

// The output of GPT-2 costs about five of its blocks' products, so its stage gets fewer blocks.
TEST(StageLayout, TheHeadCountsAsBlocks) {
  const Config c = config_of(12, 4);
  const ModelCosts costs = model_costs(c);
  EXPECT_GT(costs.head, 4 * costs.layers[0]);
  EXPECT_LT(costs.embedding, 0.01 * costs.layers[0]);
  EXPECT_EQ(counts(stage_ranges(c)), Counts({3, 4, 4, 1}));
  Config small = c;
  small.model.vocab_size = 64;
  EXPECT_EQ(counts(stage_ranges(small)), Counts({3, 3, 3, 3}));
}

TEST(StageLayout, CostsAreThoseOfTheBlueprint) {
  Config c = config_of(3, 1);
  for (const Activation activation : {Activation::gelu, Activation::swiglu}) {
    c.model.activation = activation;
    c.model.num_kv_heads = 4;
    const ModelCosts costs = model_costs(c);
    const double head = 6.0 * 50304 * 768;
    const auto total = static_cast<double>(make_blueprint(c, 1).flops_per_token());
    EXPECT_NEAR(3 * costs.layers[0] + head, total, 1e-9 * total);
    EXPECT_GT(costs.head, head);
    EXPECT_LT(costs.head, 1.01 * head);
  }
}

TEST(StageLayout, RecomputationMakesBlocksDearer) {
  Config c = config_of(3, 1);
  const double plain = model_costs(c).layers[0];
  c.grid.recompute = Recompute::full;
  EXPECT_NEAR(model_costs(c).layers[0], plain * 4 / 3, 1e-9 * plain);
  c.grid.recompute_interval = 2;
  EXPECT_NEAR(model_costs(c).layers[0], plain * 7 / 6, 1e-9 * plain);
  c.grid.recompute = Recompute::selective;
  EXPECT_GT(model_costs(c).layers[0], plain);
  EXPECT_LT(model_costs(c).layers[0], plain * 7 / 6);
}

TEST(StageLayout, KnownPartitions) {
  const ModelCosts linear{{1, 2, 3, 4, 5, 6, 7, 8, 9}, 0, 0};
  EXPECT_EQ(counts(balanced_ranges(linear, 3, 1)), Counts({5, 2, 2}));  // 15, 13, 17
  EXPECT_EQ(counts(balanced_ranges({{1, 1, 1, 1, 1, 1}, 2, 1}, 3, 1)), Counts({1, 3, 2}));
  // All that is not the slowest is even as well: not 1 3 3 3.
  EXPECT_EQ(counts(balanced_ranges({std::vector<double>(10, 1.0), 0, 0.1}, 4, 1)),
            Counts({2, 3, 3, 2}));
  // Twelve blocks on four ranks of two chunks: the stages of a chunk are alike.
  EXPECT_EQ(counts(balanced_ranges({std::vector<double>(12, 1.0), 0.01, 0.02}, 4, 2)),
            Counts({2, 2, 2, 2, 1, 1, 1, 1}));
  // Two chunks a rank: the second rank has the head, so the first gets five of the eight blocks.
  const ModelCosts headed{std::vector<double>(8, 1.0), 0, 2};
  const std::vector<StageRange> ranges = balanced_ranges(headed, 2, 2);
  EXPECT_EQ(rank_costs(headed, ranges, 2), std::vector<double>({5, 5}));
}

TEST(StageLayout, BalancesAsWellAsTryingAll) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> cost(0.5, 2);
  for (int round = 0; round < 60; ++round)
    for (int64_t ranks = 1; ranks <= 4; ++ranks) {
      ModelCosts costs{std::vector<double>(9), cost(generator), 3 * cost(generator)};
      for (double& layer : costs.layers) layer = cost(generator);
      EXPECT_NEAR(slowest(costs, balanced_ranges(costs, ranks, 1), ranks),
                  least_of_all(costs, ranks, 1), 1e-9);
    }
}

TEST(StageLayout, BalancesChunksAsWellAsTryingAll) {
  std::mt19937 generator(8);
  std::uniform_real_distribution<double> cost(0, 4);
  for (int round = 0; round < 20; ++round)
    for (const int64_t ranks : {2, 3})
      for (const int64_t chunks : {2, 3}) {
        // Equal layers, as the deck's cost has them: exact.
        ModelCosts costs{std::vector<double>(12, 1.0), cost(generator), cost(generator)};
        EXPECT_NEAR(slowest(costs, balanced_ranges(costs, ranks, chunks), ranks),
                    least_of_all(costs, ranks, chunks), 1e-9);
        // Unequal ones: the descent comes near.
        for (double& layer : costs.layers) layer = 1 + 0.1 * cost(generator);
        EXPECT_LE(slowest(costs, balanced_ranges(costs, ranks, chunks), ranks),
                  1.1 * least_of_all(costs, ranks, chunks));
      }
}

TEST(StageLayout, MeasuredTimesGiveTheCostsBack) {
  const Config c = config_of(10, 4);
  const ModelCosts truth{std::vector<double>(10, 0.5), 0.001, 1.25};
  const std::vector<StageRange> ranges = {{0, 3}, {3, 6}, {6, 8}, {8, 10}};
  const ModelCosts found = measured_costs(c, {stage_costs(truth, ranges), ranges});
  ASSERT_EQ(found.layers.size(), 10u);
  for (const double layer : found.layers) EXPECT_NEAR(layer, 0.5, 0.01);
  EXPECT_NEAR(found.head, 1.25, 0.02);
  EXPECT_NEAR(found.embedding, 0.001, 0.01);
  Config measured = c;
  measured.grid.stage_balance = StageBalance::measured;
  EXPECT_EQ(counts(stage_ranges(measured, found.layers, found.embedding, found.head)),
            Counts({3, 3, 3, 1}));
  EXPECT_THROW(stage_ranges(measured), InternalError);
  EXPECT_THROW(stage_ranges(measured, {1, 2}), InternalError);
}

TEST(StageLayout, ASlowStageGetsFewerBlocks) {
  Config c = config_of(8, 4);
  c.model.vocab_size = 64;
  const std::vector<StageRange> ranges = {{0, 2}, {2, 4}, {4, 6}, {6, 8}};
  const ModelCosts costs = measured_costs(c, {{1, 3, 1, 1}, ranges});
  EXPECT_NEAR(costs.layers[2], 1.5, 1e-12);
  EXPECT_EQ(counts(balanced_ranges(costs, 4, 1)), Counts({2, 1, 1, 4}));
}

TEST(StageLayout, RefusesTimesOfAnotherModel) {
  const Config c = config_of(4, 2);
  EXPECT_THROW(measured_costs(c, {}), DataError);
  EXPECT_THROW(measured_costs(c, {{1, 1}, {{0, 2}}}), DataError);
  EXPECT_THROW(measured_costs(c, {{1, 1}, {{0, 2}, {2, 5}}}), DataError);
  EXPECT_THROW(measured_costs(c, {{1, 1}, {{0, 2}, {3, 4}}}), DataError);
  EXPECT_THROW(measured_costs(c, {{1, 0}, {{0, 2}, {2, 4}}}), DataError);
  EXPECT_NO_THROW(measured_costs(c, {{1, 1}, {{0, 2}, {2, 4}}}));
  EXPECT_NEAR(
      measured_costs(c, {{2}, {{0, 4}}}).head + 4 * measured_costs(c, {{2}, {{0, 4}}}).layers[0], 2,
      0.01);
}

}  // namespace
}  // namespace espalier
