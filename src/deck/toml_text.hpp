// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: TOML text as plain values with their places. The one file that
// includes toml++ is toml_text.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "deck/key_table.hpp"

namespace espalier {

struct Place {
  std::string file;
  int line = 0;    // 1-based; 0: no place
  int column = 0;  // 1-based, in characters
};

enum class RawKind { boolean, integer, real, text, list, table, date };

struct RawEntry;

/// One TOML value. `scalar` is set for boolean, integer, real and text, `items` for a list,
/// `entries` for a table.
struct RawValue {
  RawKind kind = RawKind::table;
  KeyValue scalar;
  std::vector<RawValue> items;
  std::vector<RawEntry> entries;
};

struct RawEntry {
  std::string name;
  Place place;  // of the name, or of the [header]
  RawValue value;
};

/// What came of a text: entries, or the one syntax error that TOML reports.
struct RawDeck {
  std::vector<RawEntry> entries;  // in file order
  bool is_broken = false;
  Place error_place;
  std::string error;
};

RawDeck parse_toml(const std::string& text, const std::string& file);

/// A value as it may stand behind `=`; nothing if the text is not exactly one TOML value.
std::optional<RawValue> parse_toml_value(const std::string& text);

bool is_utf8(const std::string& text);
bool has_control_characters(const std::string& text);

/// A key's value as a RawValue (a list becomes items).
RawValue to_raw(const KeyValue& value);

/// For messages: "integer", "string", "list" ...
const char* kind_name(RawKind kind);

/// The value as text for messages, at most about 60 bytes, without control characters.
std::string raw_text(const RawValue& value);

/// Foreign text for messages: control characters replaced by '?', at most 200 bytes.
std::string printable(std::string text);

/// A name as text for messages: bare if TOML allows it so, else quoted and escaped, and short.
std::string name_text(const std::string& name);

}  // namespace espalier
