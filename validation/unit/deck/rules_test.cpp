// SPDX-License-Identifier: Apache-2.0
// Rules across keys, where a table of messages does not show them: suggestions are legal, sound
// neighbours pass, and one fault does not breed others.
#include <gtest/gtest.h>

#include <regex>

#include "small_deck.hpp"

namespace espalier {
namespace {

DeckResult judge(const std::vector<std::string>& overrides,
                 std::optional<int64_t> ranks = std::nullopt) {
  return parse_deck(small_deck(), "deck.toml", overrides, ranks);
}

TEST(Rules, ASuggestedBatchIsSound) {
  for (int64_t global = 1; global <= 40; ++global)
    for (int64_t ranks : {1, 2, 3, 5, 8}) {
      const std::vector<std::string> overrides = {
          "batch.micro_batch_size=4", "batch.global_batch_size=" + std::to_string(global)};
      const DeckResult result = judge(overrides, ranks);
      ASSERT_EQ(result.ok(), global % (4 * ranks) == 0) << global << " on " << ranks;
      if (result.ok()) continue;
      std::smatch match;
      const std::string suggestion = result.faults[0].suggestion;
      ASSERT_TRUE(std::regex_search(suggestion, match, std::regex("^try (\\d+)( or (\\d+))?")));
      for (const size_t group : {1, 3}) {
        if (!match[group].matched) continue;
        EXPECT_TRUE(
            judge({overrides[0], "batch.global_batch_size=" + match[group].str()}, ranks).ok())
            << suggestion;
      }
    }
}

TEST(Rules, ASuggestedNumberOfKvHeadsIsSound) {
  for (int64_t kv = 1; kv <= 16; ++kv) {
    const DeckResult result = judge(
        {"model.num_heads=16", "model.head_dim=8", "model.num_kv_heads=" + std::to_string(kv)});
    EXPECT_EQ(result.ok(), 16 % kv == 0) << kv;
  }
}

TEST(Rules, ReproducibleWantsPowersOfTwo) {
  for (int64_t ranks = 1; ranks <= 16; ++ranks) {
    const DeckResult result = judge(
        {"numerics.reproducible=true", "batch.global_batch_size=" + std::to_string(ranks)}, ranks);
    EXPECT_EQ(result.ok(), (ranks & (ranks - 1)) == 0) << ranks << fault_text(result);
  }
}

TEST(Rules, WarmupMayFillTheRun) {
  EXPECT_TRUE(judge({"run.steps=10", "schedule.warmup_steps=10"}).ok());
  EXPECT_FALSE(judge({"run.steps=10", "schedule.warmup_steps=11"}).ok());
  EXPECT_TRUE(judge({"run.steps=10", "schedule.decay=wsd", "schedule.warmup_steps=6",
                     "schedule.decay_steps=4"})
                  .ok());
}

TEST(Rules, LowestRateMayEqualTheHighest) {
  EXPECT_TRUE(judge({"optimizer.learning_rate=1e-4", "schedule.min_learning_rate=1e-4"}).ok());
}

TEST(Rules, RandomDataNeedsNoFiles) {
  EXPECT_TRUE(judge({"monitor.validation_interval=5"}).ok());
  EXPECT_FALSE(
      judge({"data.source=files", "data.train=[\"a\"]", "monitor.validation_interval=5"}).ok());
}

TEST(Rules, OneFaultDoesNotBreedOthers) {
  // Each would break further rules if its value were believed.
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"model.num_heads=0"},
           {"model.num_heads=x", "grid.data_parallel=1"},
           {"model.num_kv_heads=-3"},
           {"model.hidden_size=1.5", "model.position=rope"},
           {"batch.micro_batch_size=0", "batch.global_batch_size=7"},
           {"run.steps=-1", "schedule.warmup_steps=5", "schedule.decay=wsd"},
           {"model.preset=gpt3"},
           {"data.source=file", "monitor.validation_interval=3"},
           {"grid.data_parallel=x", "numerics.reproducible=true"}})
    EXPECT_EQ(judge(overrides, 1).faults.size(), 1u) << overrides[0] << "\n"
                                                     << fault_text(judge(overrides, 1));
}

TEST(Rules, SeveralFaultsAreAllListed) {
  const DeckResult result =
      judge({"model.num_kv_heads=3", "grid.pipeline_parallel=4", "run.steps=5",
             "schedule.warmup_steps=9", "optimizer.beta2=1", "monitor.log_interval=0"});
  const std::string text = fault_text(result);
  for (const char* part :
       {"model.num_kv_heads = 3", "grid.pipeline_parallel = 4 (num_layers = 2",
        "schedule.warmup_steps = 9", "optimizer.beta2 = 1", "monitor.log_interval = 0"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(result.faults.size(), 5u) << text;
}

}  // namespace
}  // namespace espalier
