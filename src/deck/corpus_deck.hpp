// SPDX-License-Identifier: Apache-2.0
// From the text of a corpus deck to a checked CorpusConfig.
#pragma once

#include <string>
#include <vector>

#include "deck/corpus_config.hpp"
#include "deck/deck.hpp"

namespace espalier {

struct CorpusDeckResult {
  CorpusConfig config;          // complete only if faults is empty
  std::vector<Fault> faults;    // all of them, in file order
  std::vector<Fault> warnings;  // keys without effect
  bool ok() const { return faults.empty(); }
};

/// Reads and checks a corpus deck. `overrides` are "section.key=value"; sources have none.
/// Never throws for bad content: a missing or unreadable file and broken TOML are faults too.
CorpusDeckResult read_corpus_deck(const std::string& path,
                                  const std::vector<std::string>& overrides);
CorpusDeckResult parse_corpus_deck(const std::string& text, const std::string& name,
                                   const std::vector<std::string>& overrides = {});

/// Reads a deck or throws DeckError with all the faults. Prints warnings through core/log.
CorpusConfig require_corpus_deck(const std::string& path,
                                 const std::vector<std::string>& overrides);

/// Whether a file is a corpus deck: it has [build] or [[source]], which no other deck has. False
/// for what cannot be read.
bool is_corpus_deck(const std::string& path);

/// Faults of a config that no deck gave, by the same rules; ranges of single values are not among
/// them.
std::vector<Fault> corpus_faults(const CorpusConfig& config);

/// The complete deck as TOML: the same text for the same config.
std::string write_corpus_deck(const CorpusConfig& config);

/// Reference of all keys, for the terminal and as docs/corpus-deck.md.
std::string corpus_deck_reference();
std::string corpus_deck_reference_markdown();

}  // namespace espalier
