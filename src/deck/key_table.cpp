// SPDX-License-Identifier: Apache-2.0
// Assembles the key table, looks keys up, and writes values as TOML.
#include "deck/key_table.hpp"

#include <fmt/format.h>

#include <map>

#include "deck/key_builder.hpp"

namespace espalier {
namespace {

std::string number_text(double value) {
  return fmt::format("{}", value);
}

std::vector<Key> make_table() {
  std::vector<Key> table;
  add_run_keys(table);
  add_model_keys(table);
  add_grid_keys(table);
  add_training_keys(table);
  add_data_keys(table);
  add_checkpoint_keys(table);
  add_monitor_keys(table);
  return table;
}

std::map<std::string, size_t, std::less<>> make_index() {
  std::map<std::string, size_t, std::less<>> index;
  for (size_t i = 0; i < key_table().size(); ++i) {
    const bool is_new = index.emplace(key_table()[i].full_name(), i).second;
    ESPALIER_REQUIRE(is_new, "deck key {} stands twice in the table", key_table()[i].full_name());
  }
  return index;
}

}  // namespace

bool Bounds::contains(double value) const {
  const bool above = lower_open ? value > lower : value >= lower;
  const bool below = upper_open ? value < upper : value <= upper;
  return above && below;
}

std::string Bounds::text() const {
  const bool has_lower = lower > -std::numeric_limits<double>::infinity();
  const bool has_upper = upper < std::numeric_limits<double>::infinity();
  if (has_lower && has_upper && !lower_open && !upper_open)
    return number_text(lower) + " to " + number_text(upper);
  std::string out;
  if (has_lower) out = (lower_open ? "above " : "at least ") + number_text(lower);
  if (has_upper)
    out += (out.empty() ? "" : " and ") + std::string(upper_open ? "below " : "at most ") +
           number_text(upper);
  return out;
}

const std::vector<Key>& key_table() {
  static const std::vector<Key> table = make_table();
  return table;
}

const std::vector<Section>& deck_sections() {
  static const std::vector<Section> sections = {
      {"run", "The run as a whole: its folder, length and seed."},
      {"model", "The transformer: sizes and what its layers are. A preset fills this section."},
      {"grid", "The Cartesian grid of ranks. It decides who computes, never what."},
      {"batch", "How many tokens a step sees, and in which portions."},
      {"numerics", "Element types and the order of sums."},
      {"optimizer", "AdamW and gradient clipping."},
      {"schedule", "The learning rate over the steps."},
      {"data", "Where tokens come from and how documents are treated."},
      {"checkpoint", "What is kept of the run."},
      {"monitor", "What is measured and printed."},
  };
  return sections;
}

size_t key_index(std::string_view full_name) {
  static const auto index = make_index();
  const auto found = index.find(full_name);
  return found == index.end() ? kNoKey : found->second;
}

size_t key_index(std::string_view section, std::string_view name) {
  return key_index(fmt::format("{}.{}", section, name));
}

std::string type_text(const KeyFacts& key) {
  switch (key.type) {
    case KeyType::boolean: return "true or false";
    case KeyType::integer: return "integer";
    case KeyType::real: return "number";
    case KeyType::text: return "string";
    case KeyType::text_list: return "list of strings";
    case KeyType::integer_list: return "list of integers";
    case KeyType::range_list: return "list of pairs of integers";
    case KeyType::choice: return fmt::format("one of {}", fmt::join(key.choices, ", "));
  }
  return "?";
}

std::string toml_quote(const std::string& text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[i];
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      out += fmt::format("\\u{:04X}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out + "\"";
}

std::string toml_text(const KeyValue& value) {
  struct Writer {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const {
      std::string text = fmt::format("{}", v);
      // TOML tells a float from an integer by its point or exponent ("nan" and "inf" have an n).
      if (text.find_first_of(".en") == std::string::npos) text += ".0";
      return text;
    }
    std::string operator()(const std::string& v) const { return toml_quote(v); }
    std::string operator()(const std::vector<std::string>& v) const {
      std::string text = "[";
      for (size_t i = 0; i < v.size(); ++i) text += (i == 0 ? "" : ", ") + toml_quote(v[i]);
      return text + "]";
    }
    std::string operator()(const std::vector<int64_t>& v) const {
      return fmt::format("[{}]", fmt::join(v, ", "));
    }
    std::string operator()(const std::vector<IntegerRange>& v) const {
      std::vector<std::string> pairs;
      for (const IntegerRange& r : v) pairs.push_back(fmt::format("[{}, {}]", r[0], r[1]));
      return fmt::format("[{}]", fmt::join(pairs, ", "));
    }
  };
  return std::visit(Writer{}, value);
}

}  // namespace espalier
