// SPDX-License-Identifier: Apache-2.0
// Values that a deck leaves to the program.
#include <gtest/gtest.h>

#include "small_deck.hpp"

namespace espalier {
namespace {

TEST(Automatic, ModelSizes) {
  const Config config = sound_config(small_deck());
  EXPECT_EQ(config.model.intermediate_size, 256);
  EXPECT_EQ(config.model.num_kv_heads, 4);
  EXPECT_EQ(config.model.head_dim, 16);
}

TEST(Automatic, GatedInnerWidthIsEightThirdsInMultiplesOf64) {
  EXPECT_EQ(sound_config(small_deck("model.activation = \"swiglu\"\n")).model.intermediate_size,
            192);  // 8/3 * 64 = 170.7
  EXPECT_EQ(sound_config(small_deck("model.activation = \"swiglu\"\n"), {"model.hidden_size=96"})
                .model.intermediate_size,
            256);  // exactly
}

TEST(Automatic, ExplicitSizesStay) {
  const Config config = sound_config(
      small_deck("model.intermediate_size = 100\nmodel.num_kv_heads = 2\nmodel.head_dim = 10\n"));
  EXPECT_EQ(config.model.intermediate_size, 100);
  EXPECT_EQ(config.model.num_kv_heads, 2);
  EXPECT_EQ(config.model.head_dim, 10);
}

TEST(Automatic, HeadDimMakesHeadsFreeOfHiddenSize) {
  EXPECT_EQ(
      sound_config(small_deck("model.head_dim = 10\n"), {"model.num_heads=5"}).model.num_heads, 5);
}

TEST(Automatic, AnExplicitZeroMeansAutomaticToo) {
  const DeckResult result = parse_deck(small_deck("model.num_kv_heads = 0\n"), "deck.toml");
  EXPECT_EQ(result.config.model.num_kv_heads, 4);
  EXPECT_EQ(result.origins.at("model.num_kv_heads"), "automatic");
}

TEST(Automatic, RunDirectoryFromTheDeckName) {
  EXPECT_EQ(parse_deck(small_deck(), "some/where/big.v2.toml").config.run.directory, "runs/big.v2");
  EXPECT_EQ(parse_deck(small_deck(), "").config.run.directory, "runs/deck");
  EXPECT_FALSE(parse_deck(small_deck(), "bad\nname.toml").ok());
  EXPECT_FALSE(parse_deck(small_deck(), "bad\xffname.toml").ok());
  EXPECT_TRUE(parse_deck(small_deck("run.directory = \"r\"\n"), "bad\xffname.toml").ok());
}

TEST(Automatic, DataParallelOnlyWithRanks) {
  const std::string deck = small_deck("batch.global_batch_size = 8\n");
  EXPECT_EQ(sound_config(deck).grid.data_parallel, 0);
  EXPECT_EQ(sound_config(deck, {}, 4).grid.data_parallel, 4);
  EXPECT_EQ(sound_config(deck, {"grid.data_parallel=2"}, 2).grid.data_parallel, 2);
}

TEST(Automatic, TwoChunksWhenInterleaved) {
  EXPECT_EQ(sound_config(small_deck()).grid.virtual_stages, 1);
  const std::string deck = small_deck("grid.pipeline_schedule = \"interleaved\"\n");
  EXPECT_EQ(sound_config(deck).grid.virtual_stages, 2);
  EXPECT_EQ(sound_config(deck, {"grid.virtual_stages=1"}).grid.virtual_stages, 1);
}

TEST(Automatic, WsdTailIsATenthOfTheSteps) {
  const std::string deck = small_deck("schedule.decay = \"wsd\"\n");
  EXPECT_EQ(sound_config(deck, {"run.steps=200"}).schedule.decay_steps, 20);
  EXPECT_EQ(sound_config(deck, {"run.steps=3"}).schedule.decay_steps, 1);
  EXPECT_EQ(sound_config(small_deck()).schedule.decay_steps, 0);
}

TEST(Automatic, DoubleComputesAndReducesInDouble) {
  const std::string deck = small_deck("numerics.compute_type = \"fp64\"\n");
  EXPECT_EQ(sound_config(deck).numerics.master_type, ElementType::fp64);
  EXPECT_EQ(sound_config(small_deck()).numerics.master_type, ElementType::fp32);
  EXPECT_EQ(sound_config(deck).numerics.gradient_reduce_type, ElementType::fp64);
  EXPECT_EQ(
      sound_config(deck, {"numerics.gradient_reduce_type=fp32"}).numerics.gradient_reduce_type,
      ElementType::fp32);
}

}  // namespace
}  // namespace espalier
