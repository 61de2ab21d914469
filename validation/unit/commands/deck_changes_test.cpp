// SPDX-License-Identifier: Apache-2.0
// What a change of the deck means for a run that goes on.
#include "commands/deck_changes.hpp"

#include <gtest/gtest.h>

#include <map>

#include "deck/key_table.hpp"

namespace espalier {
namespace {

std::map<std::string, ChangeKind> kinds(const Config& before, const Config& after) {
  std::map<std::string, ChangeKind> found;
  for (const DeckChange& change : compare_decks(before, after)) found[change.key] = change.kind;
  return found;
}

TEST(DeckChanges, EqualDecksHaveNone) {
  EXPECT_TRUE(compare_decks(Config{}, Config{}).empty());
}

TEST(DeckChanges, SaysBothValuesAndTheMeaning) {
  Config before, after;
  after.optimizer.learning_rate = 0.5;
  const auto changes = compare_decks(before, after);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].text(), "optimizer.learning_rate 0.0003 -> 0.5: ALTERS THE ARITHMETIC");
}

TEST(DeckChanges, GridsPlaceButMayRound) {
  Config before, after;
  after.grid.tensor_parallel = 2;
  EXPECT_EQ(kinds(before, after)["grid.tensor_parallel"], ChangeKind::rounding);
  before.numerics.reproducible = after.numerics.reproducible = true;
  EXPECT_EQ(kinds(before, after)["grid.tensor_parallel"], ChangeKind::placement);
  before.numerics.reproducible = false;
  const auto both = kinds(before, after);
  EXPECT_EQ(both.at("grid.tensor_parallel"), ChangeKind::rounding);
  EXPECT_EQ(both.at("numerics.reproducible"), ChangeKind::arithmetic);
}

TEST(DeckChanges, TheLengthOfTheRunCountsWhereTheRateLooksAtIt) {
  Config before, after;
  after.run.steps = before.run.steps + 10;
  for (const DecayKind kind : {DecayKind::linear, DecayKind::cosine, DecayKind::wsd}) {
    before.schedule.decay = after.schedule.decay = kind;
    EXPECT_EQ(kinds(before, after)["run.steps"], ChangeKind::arithmetic);
  }
  before.schedule.decay = after.schedule.decay = DecayKind::constant;
  EXPECT_EQ(kinds(before, after)["run.steps"], ChangeKind::conduct);
}

// A section that a later release adds must be thought about.
TEST(DeckChanges, EverySectionHasItsMeaning) {
  const std::map<std::string, ChangeKind> expected = {
      {"run.seed", ChangeKind::arithmetic},
      {"run.directory", ChangeKind::conduct},
      {"run.time_limit", ChangeKind::conduct},
      {"batch.seq_length", ChangeKind::arithmetic},
      {"model.attention_dropout", ChangeKind::arithmetic},
      {"data.train", ChangeKind::arithmetic},
      {"data.prefetch_steps", ChangeKind::conduct},
      {"checkpoint.interval", ChangeKind::conduct},
      {"monitor.log_interval", ChangeKind::conduct},
      {"schedule.warmup_steps", ChangeKind::arithmetic},
      {"numerics.logits_mib", ChangeKind::arithmetic},
      {"numerics.kernels", ChangeKind::arithmetic},
      {"numerics.graphs", ChangeKind::conduct},
      {"grid.share_devices", ChangeKind::conduct},
      {"grid.device_transport", ChangeKind::conduct}};
  Config after;
  after.run.seed = 9;
  after.run.directory = "elsewhere";
  after.run.time_limit = 5;
  after.batch.seq_length = 3;
  after.model.attention_dropout = 0.5;
  after.data.train = {"a"};
  after.data.prefetch_steps = 7;
  after.checkpoint.interval = 3;
  after.monitor.log_interval = 9;
  after.schedule.warmup_steps = 4;
  after.numerics.logits_mib = 96;
  after.numerics.kernels = Kernels::portable;
  after.numerics.graphs = true;
  after.grid.share_devices = true;
  after.grid.device_transport = DeviceTransport::staged;
  EXPECT_EQ(kinds(Config{}, after), expected);
}

}  // namespace
}  // namespace espalier
