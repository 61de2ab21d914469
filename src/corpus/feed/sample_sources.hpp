// SPDX-License-Identifier: Apache-2.0
// Opened tokens as sources of samples, and the shares in which the deck mixes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "corpus/feed/packing.hpp"
#include "corpus/feed/sample_set.hpp"

namespace espalier {

struct SampleSource {
  std::string name, language;
  double weight = 0.0;  // of a store's manifest; 0: none given
  int64_t tokens = 0;
  std::unique_ptr<const SampleSet> samples;
  PackingCounts packing;  // best_fit only
};

/// Samples of seq_length tokens of each source, by data.packing.
/// Errors    DataError for an array of a plain source that fills no window, and with best_fit for
///           arrays without an index
/// Warns     of a source of a store that fills no sequence at all
std::vector<SampleSource> make_sample_sources(std::vector<TokenSource> tokens, int64_t seq_length,
                                              const DataConfig& config);

struct MixtureStage {
  int64_t step = 0;            // from this step on, counted from 0
  std::vector<int64_t> quota;  // [sources], of a block of the mixture
};

/// The shares from step 0 on and their changes; empty if the sources are one merged set, in which
/// all of them stand in proportion to their size: a single source, or no weights, temperature 1, no
/// curriculum, and manifests that give all the same weight.
/// Shares are of sequences: by data.weights as they are; by temperature T tokens^(1/T); by the
/// manifests (only without weights and temperature) weight * tokens, so that a weight of 2 shows a
/// source's text twice as often as a weight of 1 does.
/// Errors    DeckError for a name that no source has, or that is missing; DataError for a source
///           that has a share but no sample
std::vector<MixtureStage> make_mixture_stages(const DataConfig& config,
                                              const std::vector<SampleSource>& sources);

}  // namespace espalier
