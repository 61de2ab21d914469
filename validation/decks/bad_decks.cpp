// SPDX-License-Identifier: Apache-2.0
// Runs the table bad_decks.txt: every case must give exactly the listed faults and warnings, in
// that order, each with its place. The format of the table stands at its top.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "deck/deck.hpp"

namespace espalier {
namespace {

struct Case {
  std::string name;
  bool is_bare = false;
  std::vector<std::string> overrides;
  std::optional<int64_t> ranks;
  std::string text;
  std::string expected;
};

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

// "\xNN" in a case stands for the byte NN, so that the table itself is plain text.
std::string with_bytes(const std::string& line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line.compare(i, 2, "\\x") == 0 && i + 3 < line.size()) {
      out += static_cast<char>(std::stoi(line.substr(i + 2, 2), nullptr, 16));
      i += 3;
    } else {
      out += line[i];
    }
  }
  return out;
}

std::vector<Case> read_cases() {
  std::ifstream file(BAD_DECKS_TABLE);
  std::vector<Case> cases;
  bool expects = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("=== ", 0) == 0) {
      cases.push_back({line.substr(4), false, {}, std::nullopt, "", ""});
      expects = false;
    } else if (cases.empty()) {
      continue;
    } else if (line == ">>>") {
      expects = true;
    } else if (expects) {
      if (!line.empty()) cases.back().expected += line + "\n";
    } else if (line == "@bare") {
      cases.back().is_bare = true;
    } else if (line.rfind("@ranks ", 0) == 0) {
      cases.back().ranks = std::stoll(line.substr(7));
    } else if (line.rfind("@set ", 0) == 0) {
      cases.back().overrides.push_back(with_bytes(line.substr(5)));
    } else {
      cases.back().text += with_bytes(line) + "\n";
    }
  }
  return cases;
}

std::string outcome(const Case& c) {
  const std::string text = c.is_bare ? c.text : with_base(c.text);
  const DeckResult result = parse_deck(text, "deck.toml", c.overrides, c.ranks);
  std::string lines;
  for (const Fault& fault : result.faults) lines += fault.text() + "\n";
  for (const Fault& warning : result.warnings) lines += "warning: " + warning.text() + "\n";
  return lines;
}

class BadDecks : public testing::TestWithParam<Case> {};

TEST_P(BadDecks, GiveExactlyTheListedFaults) {
  EXPECT_EQ(outcome(GetParam()), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Table, BadDecks, testing::ValuesIn(read_cases()),
                         [](const auto& c) { return c.param.name; });

TEST(BadDecksTable, IsLargeAndTheBaseAloneIsSound) {
  int faulty = 0;
  for (const Case& c : read_cases())
    faulty += c.expected.find("deck.toml") == 0 || c.expected.find("--") == 0;
  EXPECT_GE(faulty, 70);
  EXPECT_EQ(outcome({"", false, {}, std::nullopt, "", ""}), "");
}

}  // namespace
}  // namespace espalier

// With --print: the outcomes of all cases, to compare with the table by eye when a rule changes.
int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    for (const auto& c : espalier::read_cases())
      std::printf("=== %s\n%s", c.name.c_str(), espalier::outcome(c).c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
