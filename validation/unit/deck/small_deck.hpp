// SPDX-License-Identifier: Apache-2.0
// A small sound deck for the tests of the deck room.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "deck/deck.hpp"

namespace espalier {

/// `lines` (dotted keys, each with its newline) before the six keys that a deck must have.
inline std::string small_deck(const std::string& lines = "") {
  return lines +
         "model.vocab_size = 256\nmodel.hidden_size = 64\nmodel.num_layers = 2\n"
         "model.num_heads = 4\nbatch.seq_length = 32\ndata.source = \"random\"\n";
}

/// All faults, one a line.
inline std::string fault_text(const DeckResult& result) {
  std::string text;
  for (const Fault& fault : result.faults) text += fault.text() + "\n";
  return text;
}

/// The Config of a deck that must be sound.
inline Config sound_config(const std::string& text, const std::vector<std::string>& overrides = {},
                           std::optional<int64_t> ranks = std::nullopt) {
  const DeckResult result = parse_deck(text, "deck.toml", overrides, ranks);
  EXPECT_EQ(fault_text(result), "");
  return result.config;
}

}  // namespace espalier
