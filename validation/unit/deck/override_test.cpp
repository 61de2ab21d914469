// SPDX-License-Identifier: Apache-2.0
// --set section.key=value. Faulty overrides: validation/decks.
#include <gtest/gtest.h>

#include "small_deck.hpp"

namespace espalier {
namespace {

TEST(Override, ReplacesTheDeck) {
  EXPECT_EQ(sound_config(small_deck("run.steps = 3\n"), {"run.steps=5"}).run.steps, 5);
}

TEST(Override, TheLastOneWins) {
  EXPECT_EQ(sound_config(small_deck(), {"run.steps=0", "run.seed=2", "run.steps=7"}).run.steps, 7);
}

TEST(Override, ValuesAreToml) {
  const Config config =
      sound_config(small_deck(), {"optimizer.learning_rate=1e-3", " model.bias = false ",
                                  "run.directory=\"a = b # c\"", "batch.seq_length=0x10",
                                  "data.train=[\"a\", 'b']"});
  EXPECT_EQ(config.optimizer.learning_rate, 1e-3);
  EXPECT_FALSE(config.model.bias);
  EXPECT_EQ(config.run.directory, "a = b # c");
  EXPECT_EQ(config.batch.seq_length, 16);
  EXPECT_EQ(config.data.train, (std::vector<std::string>{"a", "b"}));
}

TEST(Override, BareWordsAreStrings) {
  const Config config =
      sound_config(small_deck(), {"model.norm=rmsnorm", "run.directory=runs/it's here/#1"});
  EXPECT_EQ(config.model.norm, NormKind::rmsnorm);
  EXPECT_EQ(config.run.directory, "runs/it's here/#1");
}

TEST(Override, NothingBehindAValueIsDroppedInSilence) {
  for (const char* item : {"run.steps=1 # two", "run.steps=1, 2", "run.steps=1,", "run.steps=1]",
                           "run.steps=1\nseed = 3", "run.steps=", "run.steps=[1]"})
    EXPECT_EQ(parse_deck(small_deck(), "deck.toml", {item}).faults.size(), 1u) << item;
}

TEST(Override, AnUnknownKeyIsAFaultEvenIfRepeated) {
  const DeckResult result =
      parse_deck(small_deck(), "deck.toml", {"run.step=1", "run.step=2", "nonsense"});
  EXPECT_EQ(fault_text(result),
            "--set: run.step is not a key; did you mean steps?\n"
            "--set: run.step is not a key; did you mean steps?\n"
            "--set: \"nonsense\" is not an override; write section.key=value\n");
}

TEST(Override, GivesARequiredKey) {
  EXPECT_EQ(sound_config("model.preset = \"gpt2-124m\"\ndata.source = \"random\"\n",
                         {"batch.seq_length=64"})
                .batch.seq_length,
            64);
}

}  // namespace
}  // namespace espalier
