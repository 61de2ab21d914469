// SPDX-License-Identifier: Apache-2.0
// The table of all deck keys: type, unit, default, range, help and where the value lives in Config.
// Reader, checks, writer, reference and guesses all read this table and no other list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

enum class KeyType { boolean, integer, real, text, text_list, integer_list, range_list, choice };
enum class Presence { optional, required };

/// A value of any key; a choice travels as its word.
using KeyValue = std::variant<bool, int64_t, double, std::string, std::vector<std::string>,
                              std::vector<int64_t>, std::vector<IntegerRange>>;

/// Bounds of a number, or of the numbers of a list; an open bound is itself outside.
struct Bounds {
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  bool lower_open = false;
  bool upper_open = false;
  bool contains(double value) const;
  std::string text() const;  ///< "1 to 64", "at least 0", "above 0 and below 1"; empty if unbounded
};

/// All of a row but where its value lives.
struct KeyFacts {
  std::string section;
  std::string name;
  KeyType type = KeyType::integer;
  Presence presence = Presence::optional;
  std::string unit;
  std::string automatic;  ///< what the default (0 or "") stands for; empty: it stands for itself
  std::string help;
  Bounds range;
  std::vector<std::string> choices;
  std::vector<std::string> aliases;  ///< what other programs call it; only for guesses
  KeyValue fallback;                 ///< the default

  std::string full_name() const { return section + "." + name; }
};

/// A row whose value lives in a C.
template <class C>
struct KeyOf : KeyFacts {
  std::function<KeyValue(const C&)> get;
  std::function<void(C&, const KeyValue&)> set;
};
using Key = KeyOf<Config>;

/// All keys, section by section, in the order in which they are printed.
const std::vector<Key>& key_table();

/// Section names in the same order, with a line on what each is for.
struct Section {
  std::string name;
  std::string help;
};
const std::vector<Section>& deck_sections();

/// The index of "section.key" in key_table(), or kNoKey.
constexpr size_t kNoKey = static_cast<size_t>(-1);
size_t key_index(std::string_view section, std::string_view name);
size_t key_index(std::string_view full_name);

/// "integer", "list of strings", "one of a, b" and the like.
std::string type_text(const KeyFacts& key);

/// Values as TOML. Reals are the shortest text that reads back as the same bits.
std::string toml_text(const KeyValue& value);
std::string toml_quote(const std::string& text);

}  // namespace espalier
