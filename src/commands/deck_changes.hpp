// SPDX-License-Identifier: Apache-2.0
// What differs between the deck of a checkpoint and the one that goes on from it.
#pragma once

#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

enum class ChangeKind {
  arithmetic,  // other numbers come out
  rounding,    // the same arithmetic in another order of sums: fast mode on another grid
  placement,   // who does it: the same bits come out
  conduct      // what is saved, shown and verified
};

struct DeckChange {
  std::string key, before, after;  // values as TOML
  ChangeKind kind;
  std::string text() const;  ///< one line: key, both values, what it means
};

/// Every key of which the two differ, in the order of the table. Both are complete, as read from
/// effective decks.
std::vector<DeckChange> compare_decks(const Config& before, const Config& after);

}  // namespace espalier
