// SPDX-License-Identifier: Apache-2.0
// Effective decks: complete, with origins, and a fixed point of reading and writing.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "deck/key_table.hpp"
#include "small_deck.hpp"

namespace espalier {
namespace {

TEST(Writer, WritesEveryKeyWithItsOrigin) {
  const DeckResult result = parse_deck(small_deck(), "deck.toml", {"run.seed=5"});
  const std::string text = effective_deck(result);
  for (const Key& key : key_table())
    EXPECT_NE(text.find("\n" + key.name + " = "), std::string::npos) << key.full_name();
  EXPECT_NE(text.find("\nseed = 5  # override\n"), std::string::npos);
  EXPECT_NE(text.find("\nhidden_size = 64  # deck\n"), std::string::npos);
  EXPECT_NE(text.find("\nhead_dim = 16  # automatic\n"), std::string::npos);
  EXPECT_NE(text.find("\nbeta1 = 0.9  # default\n"), std::string::npos);
}

TEST(Writer, IsAFixedPoint) {
  const DeckResult first = parse_deck(small_deck(), "deck.toml");
  const DeckResult second = parse_deck(effective_deck(first), "other.toml");
  ASSERT_TRUE(second.ok()) << fault_text(second);
  EXPECT_TRUE(have_same_values(first.config, second.config));
  const std::string again = effective_deck(second);
  EXPECT_EQ(again, effective_deck(parse_deck(again, "third.toml")));
  EXPECT_EQ(write_deck(first.config), write_deck(second.config));
}

TEST(Writer, EffectiveDecksWarnOnlyOfChosenValues) {
  const DeckResult plain = parse_deck(small_deck(), "deck.toml");
  EXPECT_TRUE(parse_deck(effective_deck(plain), "deck.toml").warnings.empty());
  const DeckResult idle = parse_deck(small_deck("model.rope_theta = 5e5\n"), "deck.toml");
  EXPECT_EQ(idle.warnings.size(), 1u);
  EXPECT_EQ(parse_deck(effective_deck(idle), "deck.toml").warnings.size(), 1u);
}

TEST(Writer, StringsSurvive) {
  for (const std::string& name :
       {std::string("plain"), std::string("q\"uote"), std::string("back\\slash"),
        std::string("it's"), std::string("ümläut 漢字"), std::string("# = [x] \\u0041")}) {
    Config config = sound_config(small_deck());
    config.run.directory = name;
    config.data.validation = {name, "x" + name};
    const Config back = sound_config(write_deck(config));
    EXPECT_EQ(back.run.directory, name);
    EXPECT_EQ(back.data.validation, config.data.validation);
  }
}

TEST(Writer, ListsOfIntegersSurvive) {
  for (const std::vector<int64_t>& list :
       {std::vector<int64_t>{}, std::vector<int64_t>{2}, std::vector<int64_t>{1, 10000, 3}}) {
    Config config = sound_config(small_deck());
    config.grid.stage_blocks = list;
    EXPECT_EQ(parse_deck(write_deck(config), "deck.toml").config.grid.stage_blocks, list);
  }
}

// Doubles of every size: the bits that are written are the bits that are read.
TEST(Writer, RealsSurviveToTheBit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 300; ++i) {
    Config config = sound_config(small_deck());
    config.optimizer.gradient_clip = std::pow(10.0, exponent(random));
    config.optimizer.beta1 = std::uniform_real_distribution<double>(0, 1)(random);
    const Config back = sound_config(write_deck(config));
    EXPECT_EQ(back.optimizer.gradient_clip, config.optimizer.gradient_clip);
    EXPECT_EQ(back.optimizer.beta1, config.optimizer.beta1);
  }
}

TEST(Writer, EveryChoiceSurvives) {
  for (const Key& key : key_table())
    for (const std::string& word : key.choices) {
      Config config = sound_config(small_deck());
      key.set(config, word);
      const DeckResult back = parse_deck(write_deck(config), "deck.toml");
      EXPECT_EQ(key.get(back.config), KeyValue(word)) << key.full_name() << fault_text(back);
    }
}

}  // namespace
}  // namespace espalier
