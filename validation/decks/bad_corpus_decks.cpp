// SPDX-License-Identifier: Apache-2.0
// Runs the table bad_corpus_decks.txt: every corpus deck must give exactly the listed faults and
// warnings, in that order, each with its place. The format is that of bad_decks.txt.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "deck/corpus_deck.hpp"
#include "deck_cases.hpp"

namespace espalier {
namespace {

// Below a case that is not bare, what it does not say itself.
std::string with_base(const std::string& text) {
  std::string out = text;
  if (text.find("[build]") == std::string::npos) out += "[build]\noutput = \"store\"\n";
  if (text.find("source") == std::string::npos)
    out += "[[source]]\nname = \"base\"\npaths = [\"a.txt\"]\n";
  return out;
}

std::string outcome(const DeckCase& c) {
  const CorpusDeckResult result =
      parse_corpus_deck(c.is_bare ? c.text : with_base(c.text), "deck.toml", c.overrides);
  std::string lines;
  for (const Fault& fault : result.faults) lines += fault.text() + "\n";
  for (const Fault& warning : result.warnings) lines += "warning: " + warning.text() + "\n";
  return lines;
}

class BadCorpusDecks : public testing::TestWithParam<DeckCase> {};

TEST_P(BadCorpusDecks, GiveExactlyTheListedFaults) {
  EXPECT_EQ(outcome(GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Table, BadCorpusDecks,
                         testing::ValuesIn(read_deck_cases(BAD_CORPUS_DECKS_TABLE)),
                         [](const auto& c) { return c.param.name; });

TEST(BadCorpusDecksTable, IsLargeAndTheBaseAloneIsSound) {
  EXPECT_GE(read_deck_cases(BAD_CORPUS_DECKS_TABLE).size(), 50U);
  EXPECT_EQ(outcome({"", false, {}, std::nullopt, "", ""}), "");
}

// What is written is the same deck again.
TEST(BadCorpusDecksTable, ASoundDeckComesBackFromItsText) {
  CorpusDeckResult deck = parse_corpus_deck(with_base("[clean]\ndeduplicate = \"near\"\n"), "d");
  ASSERT_TRUE(deck.ok());
  const std::string text = write_corpus_deck(deck.config);
  const CorpusDeckResult again = parse_corpus_deck(text, "d");
  EXPECT_TRUE(again.ok());
  EXPECT_EQ(write_corpus_deck(again.config), text);
}

}  // namespace
}  // namespace espalier

// With --print: the outcomes of all cases, to compare with the table by eye when a rule changes.
int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    for (const auto& c : espalier::read_deck_cases(BAD_CORPUS_DECKS_TABLE))
      std::printf("=== %s\n%s", c.name.c_str(), espalier::outcome(c).c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
