// SPDX-License-Identifier: Apache-2.0
// A corpus deck as text, and the reference of its keys.
#include <fmt/format.h>

#include "deck/corpus_deck.hpp"
#include "deck/corpus_keys.hpp"
#include "deck/reference_text.hpp"

namespace espalier {
namespace {

std::vector<const KeyFacts*> keys_of(const std::string& section) {
  std::vector<const KeyFacts*> keys;
  for (const CorpusKey& key : corpus_keys())
    if (key.section == section) keys.push_back(&key);
  for (const SourceKey& key : source_keys())
    if (key.section == section) keys.push_back(&key);
  return keys;
}

std::string heading(const Section& section) {
  return section.name == kSourceSection ? fmt::format("[[{}]]", section.name)
                                        : fmt::format("[{}]", section.name);
}

}  // namespace

std::string write_corpus_deck(const CorpusConfig& config) {
  std::string out = "# Corpus deck with every key.\n";
  for (const Section& section : corpus_sections()) {
    if (section.name == kSourceSection) {
      for (const SourceConfig& source : config.sources) {
        const OneSource one{source};
        out += fmt::format("\n{}\n", heading(section));
        for (const SourceKey& key : source_keys())
          out += fmt::format("{} = {}\n", key.name, toml_text(key.get(one)));
      }
      continue;
    }
    out += fmt::format("\n{}\n", heading(section));
    for (const CorpusKey& key : corpus_keys())
      if (key.section == section.name)
        out += fmt::format("{} = {}\n", key.name, toml_text(key.get(config)));
  }
  return out;
}

std::string corpus_deck_reference() {
  std::string out;
  for (const Section& section : corpus_sections()) {
    out += fmt::format("{}{}  {}\n", out.empty() ? "" : "\n", heading(section), section.help);
    for (const KeyFacts* key : keys_of(section.name)) out += reference_entry(*key);
  }
  return out;
}

std::string corpus_deck_reference_markdown() {
  std::string out =
      "<!-- Written by `espalier deck --corpus --markdown`; a test compares. Do not edit. -->\n"
      "# The corpus deck\n\n"
      "What `espalier corpus build DECK` and `espalier corpus train-tokenizer DECK` read: a TOML\n"
      "file with the sections below, `[[source]]` once for each source. `--set section.key=value`\n"
      "sets a key of the other sections on the command line. All faults are listed at once.\n";
  for (const Section& section : corpus_sections()) {
    out +=
        fmt::format("\n## {}\n\n{}\n\n{}", heading(section), section.help, reference_table_head());
    for (const KeyFacts* key : keys_of(section.name)) out += reference_row(*key);
  }
  return out;
}

}  // namespace espalier
