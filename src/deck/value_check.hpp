// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: one value against its row of the key table.
#pragma once

#include <string>

#include "deck/key_table.hpp"
#include "deck/toml_text.hpp"

namespace espalier {

/// The value, or the rule that it breaks and what to write instead.
struct CheckedValue {
  KeyValue value;
  std::string rule;  // empty: sound
  std::string suggestion;
};

CheckedValue check_value(const KeyFacts& key, const RawValue& raw);

}  // namespace espalier
