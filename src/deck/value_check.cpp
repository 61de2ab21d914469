// SPDX-License-Identifier: Apache-2.0
// Type, range and choice of a single value.
#include "deck/value_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "deck/guess.hpp"

namespace espalier {
namespace {

CheckedValue broken(const std::string& rule, const std::string& suggestion) {
  return {KeyValue{}, rule, suggestion};
}

const char* article(const std::string& noun) {
  return std::string("aeio").find(noun[0]) == std::string::npos ? "a" : "an";
}

std::string expected_but(const KeyFacts& key, const RawValue& raw) {
  const std::string found = kind_name(raw.kind);
  if (key.type == KeyType::boolean || key.type == KeyType::choice)
    return fmt::format("{} is expected, this is {} {}", type_text(key), article(found), found);
  if (raw.kind == RawKind::boolean)
    return fmt::format("{} {} is expected, this is {}", article(type_text(key)), type_text(key),
                       raw_text(raw));
  return fmt::format("{} {} is expected, this is {} {}", article(type_text(key)), type_text(key),
                     article(found), found);
}

// What the user may have meant by a value of the wrong type, if that would be legal.
std::string retyped(const KeyFacts& key, const RawValue& raw) {
  std::optional<RawValue> meant;
  if (key.type == KeyType::text && raw.kind != RawKind::list && raw.kind != RawKind::table &&
      raw.kind != RawKind::date)
    meant = to_raw(KeyValue(toml_text(raw.scalar)));
  else if (key.type == KeyType::text_list && raw.kind == RawKind::text)
    meant = to_raw(KeyValue(std::vector<std::string>{std::get<std::string>(raw.scalar)}));
  else if (key.type == KeyType::integer_list && raw.kind == RawKind::integer)
    meant = to_raw(KeyValue(std::vector<int64_t>{std::get<int64_t>(raw.scalar)}));
  else if (key.type == KeyType::integer_list && raw.kind == RawKind::text)
    meant = parse_toml_value("[" + std::get<std::string>(raw.scalar) + "]");
  else if (key.type == KeyType::text && raw.kind == RawKind::list && raw.items.size() == 1)
    meant = raw.items[0];
  else if (raw.kind == RawKind::text)
    meant = parse_toml_value(std::get<std::string>(raw.scalar));
  if (meant && meant->kind != raw.kind && check_value(key, *meant).rule.empty())
    return "try " + raw_text(*meant);
  return "";
}

CheckedValue wrong_type(const KeyFacts& key, const RawValue& raw) {
  return broken(expected_but(key, raw), retyped(key, raw));
}

std::string nearest_bound(const KeyFacts& key, double value) {
  const Bounds& range = key.range;
  const bool is_low = value < range.lower || (range.lower_open && value == range.lower);
  const double bound = is_low ? range.lower : range.upper;
  if (is_low ? range.lower_open : range.upper_open)
    return fmt::format("try {}, the default", toml_text(key.fallback));
  if (key.type == KeyType::integer) return fmt::format("try {}", static_cast<int64_t>(bound));
  return "try " + toml_text(KeyValue(bound));
}

CheckedValue check_number(const KeyFacts& key, const RawValue& raw) {
  if (raw.kind == RawKind::real && key.type == KeyType::integer) {
    const double real = std::get<double>(raw.scalar);
    CheckedValue fault = wrong_type(key, raw);
    // 2^53: below it every whole double is one integer.
    if (std::isfinite(real) && real == std::floor(real) && std::abs(real) <= 9007199254740992.0 &&
        key.range.contains(real))
      fault.suggestion = fmt::format("try {}", static_cast<int64_t>(real));
    return fault;
  }
  if (raw.kind != RawKind::integer && raw.kind != RawKind::real) return wrong_type(key, raw);
  const double value = raw.kind == RawKind::integer
                           ? static_cast<double>(std::get<int64_t>(raw.scalar))
                           : std::get<double>(raw.scalar);
  if (!std::isfinite(value))
    return broken("the number must be finite",
                  fmt::format("try {}, the default", toml_text(key.fallback)));
  if (!key.range.contains(value))
    return broken("must be " + key.range.text(), nearest_bound(key, value));
  if (key.type == KeyType::integer) return {raw.scalar, "", ""};
  return {KeyValue(value), "", ""};
}

CheckedValue check_text(const KeyFacts& key, const RawValue& raw) {
  if (raw.kind != RawKind::text) return wrong_type(key, raw);
  if (has_control_characters(std::get<std::string>(raw.scalar)))
    return broken("control characters are not allowed", "");
  return {raw.scalar, "", ""};
}

CheckedValue check_choice(const KeyFacts& key, const RawValue& raw) {
  std::vector<std::string> quoted;
  for (const std::string& word : key.choices) quoted.push_back(toml_quote(word));
  const std::string list = fmt::format("choose {}", fmt::join(quoted, ", "));
  if (raw.kind != RawKind::text) return broken(expected_but(key, raw), list);
  const std::string& word = std::get<std::string>(raw.scalar);
  if (std::find(key.choices.begin(), key.choices.end(), word) != key.choices.end())
    return {raw.scalar, "", ""};
  const std::string guess = nearest_word(word, key.choices);
  return broken("no such choice",
                guess.empty() ? list : fmt::format("did you mean \"{}\"? {}", guess, list));
}

CheckedValue wrong_item(const std::string& which, const char* expected, const RawValue& item) {
  return broken(fmt::format("{} must be {} {}, it is {} {}", which, article(expected), expected,
                            article(kind_name(item.kind)), kind_name(item.kind)),
                "");
}

CheckedValue check_numbers(const KeyFacts& key, const RawValue& raw) {
  if (raw.kind != RawKind::list) return wrong_type(key, raw);
  std::vector<int64_t> numbers;
  for (const RawValue& item : raw.items) {
    const std::string which = fmt::format("item {}", numbers.size() + 1);
    if (item.kind != RawKind::integer) return wrong_item(which, "integer", item);
    const int64_t number = std::get<int64_t>(item.scalar);
    if (!key.range.contains(static_cast<double>(number)))
      return broken(fmt::format("{} must be {}", which, key.range.text()), "");
    numbers.push_back(number);
  }
  return {KeyValue(std::move(numbers)), "", ""};
}

// [[from, to], ...], each from < to.
CheckedValue check_ranges(const KeyFacts& key, const RawValue& raw) {
  if (raw.kind != RawKind::list) return wrong_type(key, raw);
  std::vector<IntegerRange> ranges;
  for (const RawValue& item : raw.items) {
    const std::string which = fmt::format("item {}", ranges.size() + 1);
    if (item.kind != RawKind::list) return wrong_item(which, "pair [from, to]", item);
    IntegerRange range{};
    if (item.items.size() != 2)
      return broken(fmt::format("{} has {} numbers, a pair is expected", which, item.items.size()),
                    "write [from, to]");
    for (size_t i = 0; i < 2; ++i) {
      if (item.items[i].kind != RawKind::integer)
        return wrong_item("a number of " + which, "integer", item.items[i]);
      range[i] = std::get<int64_t>(item.items[i].scalar);
      if (!key.range.contains(static_cast<double>(range[i])))
        return broken(fmt::format("{} must be {}", which, key.range.text()), "");
    }
    if (range[0] >= range[1])
      return broken(fmt::format("{} is empty: {} is not below {}", which, range[0], range[1]),
                    "write [from, to], from being the first and to the first one behind");
    ranges.push_back(range);
  }
  return {KeyValue(std::move(ranges)), "", ""};
}

CheckedValue check_texts(const KeyFacts& key, const RawValue& raw) {
  if (raw.kind != RawKind::list) return wrong_type(key, raw);
  std::vector<std::string> texts;
  for (const RawValue& item : raw.items) {
    const std::string which = fmt::format("item {}", texts.size() + 1);
    if (item.kind != RawKind::text) return wrong_item(which, "string", item);
    const std::string& text = std::get<std::string>(item.scalar);
    if (text.empty()) return broken(which + " is empty", "fill it in or remove it");
    if (has_control_characters(text))
      return broken(which + " has control characters, which are not allowed", "");
    texts.push_back(text);
  }
  return {KeyValue(std::move(texts)), "", ""};
}

}  // namespace

CheckedValue check_value(const KeyFacts& key, const RawValue& raw) {
  switch (key.type) {
    case KeyType::boolean:
      if (raw.kind != RawKind::boolean) return wrong_type(key, raw);
      return {raw.scalar, "", ""};
    case KeyType::integer:
    case KeyType::real: return check_number(key, raw);
    case KeyType::text: return check_text(key, raw);
    case KeyType::choice: return check_choice(key, raw);
    case KeyType::text_list: return check_texts(key, raw);
    case KeyType::integer_list: return check_numbers(key, raw);
    case KeyType::range_list: return check_ranges(key, raw);
  }
  return broken("unknown type", "");
}

}  // namespace espalier
