// SPDX-License-Identifier: Apache-2.0
// Book-keeping of keys and faults while a deck is judged.
#include "deck/draft.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace espalier {
namespace {

size_t index_of(const std::string& name) {
  const size_t index = key_index(name);
  ESPALIER_REQUIRE(index != kNoKey, "there is no deck key {}", name);
  return index;
}

}  // namespace

Draft::Draft(std::string file) : file_(std::move(file)), states_(key_table().size()) {
  config.deck_path = file_;
  for (KeyState& state : states_) state.place.file = file_;
}

KeyState& Draft::state(const std::string& name) {
  return states_[index_of(name)];
}
const KeyState& Draft::state(const std::string& name) const {
  return states_[index_of(name)];
}

bool Draft::are_sound(KeyNames names) const {
  return std::all_of(names.begin(), names.end(),
                     [this](const char* name) { return state(name).is_sound; });
}

bool Draft::is_explicit(const std::string& name) const {
  const Origin origin = state(name).origin;
  return origin == Origin::deck || origin == Origin::command_line;
}

bool Draft::names_every_key() const {
  return std::all_of(key_table().begin(), key_table().end(),
                     [this](const Key& key) { return is_explicit(key.full_name()); });
}

bool Draft::is_default(const std::string& name) const {
  const Key& key = key_table()[index_of(name)];
  return key.get(config) == key.fallback;
}

KeyValue Draft::value(const std::string& name) const {
  return key_table()[index_of(name)].get(config);
}

std::string Draft::value_text(const std::string& name) const {
  return raw_text(to_raw(value(name)));
}

std::string Draft::equation(const std::string& name) const {
  return fmt::format("{} = {}", key_table()[index_of(name)].name, value_text(name));
}

void Draft::set(const std::string& name, const KeyValue& value, Origin origin) {
  key_table()[index_of(name)].set(config, value);
  state(name).origin = origin;
}

void Draft::set_automatic(const std::string& name, const KeyValue& value, KeyNames sources) {
  set(name, value, Origin::automatic);
  state(name).place = Place{file_, 0, 0};
  if (!are_sound(sources)) state(name).is_sound = false;
}

Fault Draft::about(const std::string& name, KeyNames others) const {
  Fault fault;
  fault.key = name;
  fault.value = value_text(name);
  const KeyState* where = &state(name);
  if (!is_explicit(name))
    for (const char* other : others)
      if (is_explicit(other)) {
        where = &state(other);
        break;
      }
  fault.file = where->place.file;
  fault.line = where->place.line;
  fault.column = where->place.column;
  return fault;
}

void Draft::fault(const std::string& name, const std::string& rule, const std::string& suggestion,
                  KeyNames others) {
  Fault fault = about(name, others);
  fault.rule = rule;
  fault.suggestion = suggestion;
  faults.push_back(std::move(fault));
}

void Draft::warn(const std::string& name, const std::string& rule, const std::string& suggestion,
                 KeyNames others) {
  fault(name, rule, suggestion, others);
  warnings.push_back(std::move(faults.back()));
  faults.pop_back();
}

void Draft::missing(const std::string& name, const std::string& why, const std::string& suggestion,
                    KeyNames others) {
  Fault fault = about(name, others);
  fault.value.clear();
  fault.rule = fmt::format("is missing ({})", why);
  fault.suggestion = suggestion;
  faults.push_back(std::move(fault));
}

void Draft::fault_at(const Place& place, const std::string& key, const std::string& value,
                     const std::string& rule, const std::string& suggestion) {
  faults.push_back({place.file, place.line, place.column, key, value, rule, suggestion});
}

}  // namespace espalier
