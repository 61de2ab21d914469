// SPDX-License-Identifier: Apache-2.0
// Runs the table bad_decks.txt: every case must give exactly the listed faults and warnings, in
// that order, each with its place. The format of the table stands at its top.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "deck/deck.hpp"
#include "deck_cases.hpp"

namespace espalier {
namespace {

// What a case does not say itself, one key a line.
const std::vector<std::pair<std::string, std::string>> kBase = {
    {"model.vocab_size", "256"}, {"model.hidden_size", "64"}, {"model.num_layers", "2"},
    {"model.num_heads", "4"},    {"batch.seq_length", "32"},  {"data.source", "\"random\""}};

std::string with_base(const std::string& text) {
  std::string out = text;
  for (const auto& [key, value] : kBase)
    if (("\n" + text).find("\n" + key + " =") == std::string::npos)
      out += key + " = " + value + "\n";
  return out;
}

std::string outcome(const DeckCase& c) {
  const std::string text = c.is_bare ? c.text : with_base(c.text);
  const DeckResult result = parse_deck(text, "deck.toml", c.overrides, c.ranks);
  std::string lines;
  for (const Fault& fault : result.faults) lines += fault.text() + "\n";
  for (const Fault& warning : result.warnings) lines += "warning: " + warning.text() + "\n";
  return lines;
}

class BadDecks : public testing::TestWithParam<DeckCase> {};

TEST_P(BadDecks, GiveExactlyTheListedFaults) {
  EXPECT_EQ(outcome(GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Table, BadDecks, testing::ValuesIn(read_deck_cases(BAD_DECKS_TABLE)),
                         [](const auto& c) { return c.param.name; });

TEST(BadDecksTable, IsLargeAndTheBaseAloneIsSound) {
  int faulty = 0;
  for (const DeckCase& c : read_deck_cases(BAD_DECKS_TABLE))
    faulty += c.expected.find("deck.toml") == 0 || c.expected.find("--") == 0;
  EXPECT_GE(faulty, 70);
  EXPECT_EQ(outcome({"", false, {}, std::nullopt, "", ""}), "");
}

}  // namespace
}  // namespace espalier

// With --print: the outcomes of all cases, to compare with the table by eye when a rule changes.
int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    for (const auto& c : espalier::read_deck_cases(BAD_DECKS_TABLE))
      std::printf("=== %s\n%s", c.name.c_str(), espalier::outcome(c).c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
