// SPDX-License-Identifier: Apache-2.0
// Tables of bad decks; their format stands at the top of bad_decks.txt.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace espalier {

struct DeckCase {
  std::string name;
  bool is_bare = false;
  std::vector<std::string> overrides;
  std::optional<int64_t> ranks;
  std::string text;
  std::string expected;
};

// "\xNN" in a case stands for the byte NN, so that the table itself is plain text.
inline std::string with_bytes(const std::string& line) {
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

inline std::vector<DeckCase> read_deck_cases(const char* table) {
  std::ifstream file(table);
  std::vector<DeckCase> cases;
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

}  // namespace espalier
