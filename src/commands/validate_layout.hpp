// SPDX-License-Identifier: Apache-2.0
// Layouts as words of the command line, and as settings of a deck. Grammar: docs/validate.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deck/deck.hpp"

namespace espalier {

/// Extents of the axes and options of the grid. An option without a value is as the deck has it.
struct Layout {
  int64_t pipeline = 1, data = 1, context = 1, tensor = 1;
  std::optional<int64_t> zero_stage, zero_shards, virtual_stages;
  std::optional<bool> sequence_parallel;
  std::string schedule, recompute;  // words of the deck; empty: as the deck has it

  int64_t ranks() const { return pipeline * data * context * tensor; }
  /// "pp2xtp2+z1+sp"; "one" for a single rank with no option.
  std::string name() const;
  /// The name with characters that need no quotes in a shell: "pp2-tp2-z1-sp".
  std::string folder() const;
};

/// "tp2,pp2,dp2xtp2+z1": layouts in their order.
/// Errors  DeckError that names every factor that is none, and layouts named twice
std::vector<Layout> parse_layouts(const std::string& text);

/// What --set needs to put `deck` into this layout.
std::vector<std::string> layout_settings(const Layout& layout, const Config& deck);

/// The layout of one rank that all others are compared with: the deck's arithmetic, and no
/// sharding.
Layout reference_layout();

enum class LayoutOptions { zero, all };

/// Every layout of 2 to `max_ranks` ranks, legal or not: extents of pp, dp and tp, the ZeRO stages
/// where dp > 1; with `all` also sequence parallelism, schedules and recomputation.
std::vector<Layout> enumerate_layouts(int64_t max_ranks, LayoutOptions options);

/// The faults that the deck has in this layout. Empty: it can run.
std::vector<Fault> layout_faults(const Layout& layout, const std::string& deck_path,
                                 std::vector<std::string> settings, const Config& deck);

/// Settings for the first `steps` steps of a deck, with the learning rates that the deck has there
/// as long as it warms up, and the highest one from then on.
std::vector<std::string> first_steps_settings(const Config& deck, int64_t steps);

}  // namespace espalier
