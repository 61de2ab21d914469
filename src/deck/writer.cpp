// SPDX-License-Identifier: Apache-2.0
// A Config as a complete deck.
#include <fmt/format.h>

#include <functional>

#include "deck/deck.hpp"
#include "deck/key_table.hpp"

namespace espalier {
namespace {

std::string write_sections(const Config& config,
                           const std::function<std::string(const Key&)>& comment) {
  std::string out;
  for (const Section& section : deck_sections()) {
    out += fmt::format("\n[{}]\n", section.name);
    for (const Key& key : key_table())
      if (key.section == section.name)
        out += fmt::format("{} = {}{}\n", key.name, toml_text(key.get(config)), comment(key));
  }
  return out;
}

}  // namespace

std::string effective_deck(const DeckResult& result) {
  return "# Effective deck: every key, and where its value came from.\n" +
         write_sections(result.config, [&](const Key& key) {
           return "  # " + result.origins.at(key.full_name());
         });
}

std::string write_deck(const Config& config) {
  return "# Deck with every key.\n" +
         write_sections(config, [](const Key&) { return std::string(); });
}

bool have_same_values(const Config& a, const Config& b) {
  for (const Key& key : key_table())
    if (key.get(a) != key.get(b)) return false;
  return true;
}

}  // namespace espalier
