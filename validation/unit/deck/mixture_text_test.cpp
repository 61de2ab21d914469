// SPDX-License-Identifier: Apache-2.0
// Texts of weights and curriculum taken apart; what is refused stands in decks/bad_decks.txt.
#include "deck/mixture_text.hpp"

#include <gtest/gtest.h>

#include "small_deck.hpp"

namespace espalier {
namespace {

TEST(MixtureText, ReadsWeights) {
  const auto read = read_weights({"web=0.7", "  books of old = 2e-3 ", "a=b = 0", "语料 = 1"});
  ASSERT_EQ(read.fault, "");
  ASSERT_EQ(read.value.size(), 4u);
  EXPECT_EQ(read.value[0].name, "web");
  EXPECT_EQ(read.value[0].weight, 0.7);
  EXPECT_EQ(read.value[1].name, "books of old");
  EXPECT_EQ(read.value[1].weight, 2e-3);
  EXPECT_EQ(read.value[2].name, "a=b");  // the last sign counts
  EXPECT_EQ(read.value[2].weight, 0.0);
  EXPECT_EQ(read.value[3].name, "语料");
  for (const char* bad : {"", "=", "a =", "a = ", "a = 1 2", "a = 0x10", "a = nan", "a = 1,5"})
    EXPECT_NE(read_weights({bad}).fault, "") << bad;
}

TEST(MixtureText, ReadsStages) {
  const auto read = read_stage(" 1000 : web = 1, store/code: new = 2");
  ASSERT_EQ(read.fault, "");
  EXPECT_EQ(read.value.step, 1000);
  ASSERT_EQ(read.value.weights.size(), 2u);
  EXPECT_EQ(read.value.weights[1].name, "store/code: new");
  EXPECT_EQ(read.value.weights[1].weight, 2.0);
  for (const char* bad : {"", ":", "5", "a: b = 1", "-3: b = 1", "5: b = 1,", "5: b = 1, b = 2",
                          "99999999999999999999: b = 1", "5: b = 0"})
    EXPECT_NE(read_stage(bad).fault, "") << bad;
}

TEST(MixtureText, SoundDecksPass) {
  const std::string files = "data.source = \"files\"\ndata.train = [\"a\"]\n";
  std::string deck = small_deck(files +
                                "data.weights = [\"web = 1\", \"code = 0\"]\n"
                                "data.curriculum = [\"10: code = 1, web = 3\", \"11: web = 1, "
                                "code = 1\"]\ndata.skip = [[0, 5], [5, 6], [100, 200]]\n");
  deck.erase(deck.rfind("data.source"));  // small_deck's own
  const Config config = sound_config(deck);
  EXPECT_EQ(config.data.skip.size(), 3u);
  EXPECT_EQ(config.data.skip[2], (IntegerRange{100, 200}));
  EXPECT_TRUE(parse_deck(deck, "deck.toml", {}, std::nullopt).warnings.empty());
}

}  // namespace
}  // namespace espalier
