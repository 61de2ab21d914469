// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: how rows of the key table are written down, one chain of calls a row.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "deck/key_table.hpp"

namespace espalier {

/// One row under construction; the calls fill the columns that the row has.
class KeyRow {
 public:
  explicit KeyRow(KeyFacts& key) : key_(key) {}
  KeyRow& unit(const char* text) { return key_.unit = text, *this; }
  KeyRow& required() { return key_.presence = Presence::required, *this; }
  KeyRow& automatic(const char* meaning) { return key_.automatic = meaning, *this; }
  KeyRow& at_least(double bound) { return key_.range.lower = bound, *this; }
  KeyRow& at_most(double bound) { return key_.range.upper = bound, *this; }
  KeyRow& above(double bound) { return key_.range.lower_open = true, at_least(bound); }
  KeyRow& below(double bound) { return key_.range.upper_open = true, at_most(bound); }
  KeyRow& between(double lower, double upper) { return at_least(lower).at_most(upper); }
  KeyRow& also(std::vector<std::string> names) { return key_.aliases = std::move(names), *this; }
  KeyRow& help(const char* text) { return key_.help = text, *this; }

 private:
  KeyFacts& key_;
};

/// Appends the rows of one section, whose values live in C::*member.
template <class S, class C = Config>
class SectionRows {
 public:
  using Key = KeyOf<C>;
  SectionRows(std::vector<Key>& table, const char* section, S C::*member)
      : table_(table), section_(section), member_(member) {}

  KeyRow integer(const char* name, int64_t S::*field) {
    return plain(name, KeyType::integer, field);
  }
  KeyRow real(const char* name, double S::*field) { return plain(name, KeyType::real, field); }
  KeyRow boolean(const char* name, bool S::*field) { return plain(name, KeyType::boolean, field); }
  KeyRow text(const char* name, std::string S::*field) { return plain(name, KeyType::text, field); }
  KeyRow text_list(const char* name, std::vector<std::string> S::*field) {
    return plain(name, KeyType::text_list, field);
  }
  KeyRow integer_list(const char* name, std::vector<int64_t> S::*field) {
    return plain(name, KeyType::integer_list, field);
  }
  KeyRow range_list(const char* name, std::vector<IntegerRange> S::*field) {
    return plain(name, KeyType::range_list, field);
  }
  KeyRow word(const char* name, std::string S::*field, std::vector<std::string> words) {
    KeyRow row = plain(name, KeyType::choice, field);
    table_.back().choices = std::move(words);
    return row;
  }

  template <class E>
  KeyRow choice(const char* name, E S::*field, std::vector<std::pair<std::string, E>> words) {
    Key& key = start(name, KeyType::choice);
    for (const auto& [word, unused] : words) key.choices.push_back(word);
    const auto member = member_;
    key.get = [=](const C& c) -> KeyValue {
      for (const auto& [word, meaning] : words)
        if (c.*member.*field == meaning) return word;
      throw InternalError(fmt::format("a choice without a word"));
    };
    key.set = [=](C& c, const KeyValue& value) {
      for (const auto& [word, meaning] : words)
        if (word == std::get<std::string>(value)) c.*member.*field = meaning;
    };
    key.fallback = key.get(C{});
    return KeyRow(key);
  }

 private:
  Key& start(const char* name, KeyType type) {
    table_.emplace_back();
    table_.back().section = section_;
    table_.back().name = name;
    table_.back().type = type;
    return table_.back();
  }

  template <class T>
  KeyRow plain(const char* name, KeyType type, T S::*field) {
    Key& key = start(name, type);
    const auto member = member_;
    key.get = [=](const C& c) -> KeyValue { return c.*member.*field; };
    key.set = [=](C& c, const KeyValue& v) { c.*member.*field = std::get<T>(v); };
    key.fallback = key.get(C{});
    return KeyRow(key);
  }

  std::vector<Key>& table_;
  const char* section_;
  S C::*member_;
};

// One function a group of sections, so that no file grows long.
void add_run_keys(std::vector<Key>& table);
void add_model_keys(std::vector<Key>& table);
void add_grid_keys(std::vector<Key>& table);      // grid, batch, numerics
void add_training_keys(std::vector<Key>& table);  // optimizer, schedule
void add_data_keys(std::vector<Key>& table);
void add_checkpoint_keys(std::vector<Key>& table);
void add_monitor_keys(std::vector<Key>& table);

}  // namespace espalier
