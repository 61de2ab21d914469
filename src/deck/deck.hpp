// SPDX-License-Identifier: Apache-2.0
// From deck text to a checked Config: the door of this room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

/// One thing wrong in a deck, in the form file:line:column: key = value (rule); suggestion.
struct Fault {
  std::string file;
  int line = 0;  // 1-based; 0 where there is no place (a missing key, an override)
  int column = 0;
  std::string key;    // section.key
  std::string value;  // as written; empty when missing
  std::string rule;
  std::string suggestion;
  std::string text() const;  ///< the one line that users see
};

struct DeckRequest {
  std::string path;
  std::vector<std::string> overrides;  // "section.key=value", TOML values; bare words are strings
  std::optional<int64_t> ranks;        // check the grid against this many ranks
};

struct DeckResult {
  Config config;                               // complete only if faults is empty
  std::vector<Fault> faults;                   // all of them, in file order
  std::vector<Fault> warnings;                 // keys without effect under the chosen options
  std::map<std::string, std::string> origins;  // section.key: deck, override, preset NAME,
                                               // automatic or default
  bool ok() const { return faults.empty(); }
};

/// Reads, fills defaults and presets, applies overrides, checks everything. Never throws for bad
/// content: a missing or unreadable file and broken TOML are faults too.
DeckResult read_deck(const DeckRequest& request);

/// The same from text (tests, fuzzing); `name` stands for the file in messages.
DeckResult parse_deck(const std::string& text, const std::string& name,
                      const std::vector<std::string>& overrides = {},
                      std::optional<int64_t> ranks = std::nullopt);

/// The faults, one a line, and below them "N faults; nothing was allocated." (no newline behind).
std::string fault_list(const std::vector<Fault>& faults);

/// Reads a deck or throws DeckError with all the faults, one a line, and their number.
/// Prints warnings through core/log.
DeckResult require_deck(const DeckRequest& request);

/// The same for a deck that has been read already.
DeckResult require_sound(DeckResult result);

/// The complete deck as TOML: every key with its value and where it came from (deck, preset,
/// default, override) as a comment. Reading it again gives the same Config.
std::string effective_deck(const DeckResult& result);

/// Effective deck of a Config whose origins are unknown (no comments).
std::string write_deck(const Config& config);

/// Whether all keys are equal; deck_path does not count.
bool have_same_values(const Config& a, const Config& b);

/// Human-readable reference of one section or, if empty, of all (espalier deck [section]).
/// Throws DeckError for an unknown section, with a guess.
std::string deck_reference(const std::string& section = "");

/// The same as Markdown: the content of docs/deck.md.
std::string deck_reference_markdown();

}  // namespace espalier
