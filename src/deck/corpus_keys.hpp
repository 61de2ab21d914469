// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: the table of the keys of a corpus deck.
#pragma once

#include <vector>

#include "deck/corpus_config.hpp"
#include "deck/key_table.hpp"

namespace espalier {

using CorpusKey = KeyOf<CorpusConfig>;

/// The keys of the sections that stand once.
const std::vector<CorpusKey>& corpus_keys();

/// The keys of one [[source]].
struct OneSource {
  SourceConfig source;
};
using SourceKey = KeyOf<OneSource>;
const std::vector<SourceKey>& source_keys();

/// The sections in the order in which they are printed; "source" is the one that stands several
/// times.
const std::vector<Section>& corpus_sections();
constexpr const char* kSourceSection = "source";

}  // namespace espalier
