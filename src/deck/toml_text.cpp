// SPDX-License-Identifier: Apache-2.0
// Turns toml++'s tree into plain values, so that the rest of the room does not depend on it.
#include "deck/toml_text.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <tuple>

#include "deck/toml_scan.hpp"

namespace espalier {
namespace {

constexpr size_t kLongestText = 60;
constexpr size_t kLongestForeignText = 200;

Place place_of(const toml::source_region& region, const std::string& file) {
  return {file, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

RawValue convert(const toml::node& node, const std::string& file);

std::vector<RawEntry> convert_table(const toml::table& table, const std::string& file) {
  std::vector<RawEntry> entries;
  for (const auto& [key, node] : table) {
    RawEntry entry;
    entry.name = std::string(key.str());
    entry.place = place_of(key.source(), file);
    entry.value = convert(node, file);
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const RawEntry& a, const RawEntry& b) {
    return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
  });
  return entries;
}

RawValue convert(const toml::node& node, const std::string& file) {
  RawValue raw;
  switch (node.type()) {
    case toml::node_type::boolean:
      raw.kind = RawKind::boolean;
      raw.scalar = **node.as_boolean();
      break;
    case toml::node_type::integer:
      raw.kind = RawKind::integer;
      raw.scalar = **node.as_integer();
      break;
    case toml::node_type::floating_point:
      raw.kind = RawKind::real;
      raw.scalar = **node.as_floating_point();
      break;
    case toml::node_type::string:
      raw.kind = RawKind::text;
      raw.scalar = **node.as_string();
      break;
    case toml::node_type::array:
      raw.kind = RawKind::list;
      for (const toml::node& item : *node.as_array()) raw.items.push_back(convert(item, file));
      break;
    case toml::node_type::table:
      raw.kind = RawKind::table;
      raw.entries = convert_table(*node.as_table(), file);
      break;
    default: raw.kind = RawKind::date; break;
  }
  return raw;
}

// Cut at a character and not inside one.
std::string shortened(std::string text, size_t limit = kLongestText) {
  if (text.size() <= limit) return text;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text + "...";
}

}  // namespace

RawDeck parse_toml(const std::string& text, const std::string& file) {
  RawDeck deck;
  if (const std::optional<Place> foreign = find_foreign_character(text, file)) {
    deck.is_broken = true;
    deck.error_place = *foreign;
    deck.error = "a character beyond ASCII must stand in quotes (and not behind a line-ending \\)";
    return deck;
  }
  try {
    deck.entries = convert_table(toml::parse(text), file);
  } catch (const toml::parse_error& error) {
    deck.is_broken = true;
    deck.error_place = place_of(error.source(), file);
    deck.error = std::string(error.description());
  }
  return deck;
}

std::optional<RawValue> parse_toml_value(const std::string& text) {
  if (has_control_characters(text)) return std::nullopt;
  // In brackets a comment swallows the closing one and a second value makes two items, so nothing
  // behind the value can go unnoticed; a trailing comma is the one exception.
  const size_t last = text.find_last_not_of(' ');
  if (last == std::string::npos || text[last] == ',') return std::nullopt;
  RawDeck deck = parse_toml("value = [" + text + "]", "");
  if (deck.is_broken || deck.entries.size() != 1) return std::nullopt;
  std::vector<RawValue>& items = deck.entries[0].value.items;
  if (items.size() != 1) return std::nullopt;
  return std::move(items[0]);
}

bool is_utf8(const std::string& text) {
  return !parse_toml("value = " + toml_quote(text), "").is_broken;
}

bool has_control_characters(const std::string& text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    // U+0080 to U+009F, which terminals obey as well.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0)
      return true;
  }
  return false;
}

RawValue to_raw(const KeyValue& value) {
  RawValue raw;
  constexpr RawKind kKinds[] = {RawKind::boolean, RawKind::integer, RawKind::real, RawKind::text,
                                RawKind::list,    RawKind::list,    RawKind::list};
  raw.kind = kKinds[value.index()];
  if (const auto* list = std::get_if<std::vector<std::string>>(&value))
    for (const std::string& item : *list) raw.items.push_back(to_raw(KeyValue(item)));
  else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value))
    for (const int64_t item : *numbers) raw.items.push_back(to_raw(KeyValue(item)));
  else if (const auto* ranges = std::get_if<std::vector<IntegerRange>>(&value))
    for (const IntegerRange& r : *ranges)
      raw.items.push_back(to_raw(KeyValue(std::vector<int64_t>{r[0], r[1]})));
  else
    raw.scalar = value;
  return raw;
}

const char* kind_name(RawKind kind) {
  switch (kind) {
    case RawKind::boolean: return "true or false";
    case RawKind::integer: return "integer";
    case RawKind::real: return "real number";
    case RawKind::text: return "string";
    case RawKind::list: return "list";
    case RawKind::table: return "table";
    case RawKind::date: return "date or time";
  }
  return "?";
}

std::string raw_text(const RawValue& value) {
  switch (value.kind) {
    case RawKind::list: {
      std::string text = "[";
      for (const RawValue& item : value.items) {
        if (text.size() > kLongestText) break;
        text += (text.size() == 1 ? "" : ", ") + raw_text(item);
      }
      return shortened(text + "]");
    }
    case RawKind::table: return "{...}";
    case RawKind::date: return "(date or time)";
    default: return shortened(toml_text(value.scalar));
  }
}

std::string printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (has_control_characters(text.substr(i, 2)) &&
        (has_control_characters(text.substr(i, 1)) || text[i] == '\xC2'))
      text[i] = '?';
  return shortened(std::move(text), kLongestForeignText);
}

std::string name_text(const std::string& name) {
  const bool is_bare = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return shortened(is_bare ? name : toml_quote(name));
}

}  // namespace espalier
