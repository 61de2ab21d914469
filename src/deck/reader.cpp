// SPDX-License-Identifier: Apache-2.0
// Deck text and --set overrides into a Draft: names, types, ranges, choices, presets, missing keys.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "deck/draft.hpp"
#include "deck/guess.hpp"
#include "deck/presets.hpp"
#include "deck/value_check.hpp"

namespace espalier {
namespace {

const Place kCommandLine = {"--set", 0, 0};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_section(const std::string& name) {
  return std::any_of(deck_sections().begin(), deck_sections().end(),
                     [&](const Section& s) { return s.name == name; });
}

std::string section_list() {
  std::vector<std::string> names;
  for (const Section& section : deck_sections()) names.push_back(section.name);
  return fmt::format("the sections are {}", fmt::join(names, ", "));
}

class Reader {
 public:
  explicit Reader(Draft& draft) : draft_(draft) {}

  void read(const std::string& text, const std::vector<std::string>& overrides) {
    for (const std::string& item : overrides) read_override(item);
    const RawDeck raw = parse_toml(text, draft_.file());
    if (raw.is_broken) {
      draft_.fault_at(raw.error_place, "", "", "this is not TOML: " + printable(raw.error), "");
      for (const Section& section : deck_sections()) lost_sections_.insert(section.name);
    }
    for (const RawEntry& entry : raw.entries) present_.insert(entry.name);
    for (const RawEntry& entry : raw.entries) read_top(entry);
    for (const auto& [index, value] : overrides_)
      assign(index, value, kCommandLine, Origin::command_line);
    for (const std::string& name : guessed_)
      if (!draft_.is_explicit(name)) draft_.state(name).is_sound = false;
    fill_preset();
    find_missing();
  }

 private:
  void read_override(const std::string& item) {
    const size_t equals = item.find('=');
    const std::string name = trimmed(item.substr(0, equals));
    const size_t dot = name.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot == 0 ||
        dot + 1 == name.size()) {
      draft_.fault_at(kCommandLine, "", "", printable(toml_quote(item)) + " is not an override",
                      "write section.key=value");
      return;
    }
    const size_t index = key_index(name);
    if (index == kNoKey) {
      unknown_key(name.substr(0, dot), name.substr(dot + 1), kCommandLine);
      return;
    }
    const std::string text = trimmed(item.substr(equals + 1));
    std::optional<RawValue> value = parse_toml_value(text);
    if (!value && !is_utf8(text)) {
      draft_.fault_at(kCommandLine, name, "", "has a value that is not UTF-8", "");
      draft_.state(name).is_sound = false;
      overrides_.erase(index);
      return;
    }
    // What is not TOML is a bare word, that is a string.
    overrides_[index] = value ? *std::move(value) : to_raw(KeyValue(text));
  }

  void read_top(const RawEntry& entry) {
    const bool is_table = entry.value.kind == RawKind::table;
    if (is_section(entry.name)) {
      if (is_table) return read_section(entry.name, entry.value);
      draft_.fault_at(
          entry.place, entry.name, raw_text(entry.value),
          fmt::format("a section is expected, not a value ({})", kind_name(entry.value.kind)),
          fmt::format("write [{}] and its keys below", entry.name));
      lost_sections_.insert(entry.name);
      return;
    }
    if (!is_table) return stray_key(entry);
    const std::string guess = guess_section(entry.name);
    draft_.fault_at(entry.place, "[" + name_text(entry.name) + "]", "", "is not a section",
                    guess.empty() ? section_list() : fmt::format("did you mean [{}]?", guess));
    // Its keys are judged as those of the section that was meant, lest one typing error hide
    // others.
    if (!guess.empty() && present_.count(guess) == 0) {
      present_.insert(guess);
      read_section(guess, entry.value);
    }
  }

  void stray_key(const RawEntry& entry) {
    const std::string guess = guess_key("", entry.name);
    draft_.fault_at(entry.place, name_text(entry.name), raw_text(entry.value),
                    "a key must stand in a section",
                    guess.empty() ? section_list() : fmt::format("did you mean {}?", guess));
    if (!guess.empty()) guessed_.insert(guess);
  }

  void read_section(const std::string& section, const RawValue& table) {
    for (const RawEntry& entry : table.entries) {
      const size_t index = key_index(section, entry.name);
      if (index == kNoKey)
        unknown_key(section, entry.name, entry.place);
      else if (overrides_.count(index) == 0)
        assign(index, entry.value, entry.place, Origin::deck);
    }
  }

  void unknown_key(const std::string& section, const std::string& name, const Place& place) {
    std::string known = section;
    if (!is_section(section)) known = guess_section(section);
    const std::string guess =
        key_index(known, name) != kNoKey ? known + "." + name : guess_key(known, name);
    const bool is_near = guess.rfind(section + ".", 0) == 0;
    const std::string shown = is_near ? guess.substr(section.size() + 1) : guess;
    std::string suggestion = fmt::format("did you mean {}?", shown);
    if (guess.empty())
      suggestion =
          known.empty() ? section_list() : fmt::format("espalier deck {} lists the keys", known);
    draft_.fault_at(place, name_text(section) + "." + name_text(name), "", "is not a key",
                    suggestion);
    if (!guess.empty()) guessed_.insert(guess);
  }

  void assign(size_t index, const RawValue& raw, const Place& place, Origin origin) {
    const Key& key = key_table()[index];
    const std::string name = key.full_name();
    KeyState& state = draft_.state(name);
    state.place = place;
    state.origin = origin;
    const CheckedValue checked = check_value(key, raw);
    if (checked.rule.empty()) {
      draft_.set(name, checked.value, origin);
    } else {
      state.is_sound = false;
      draft_.fault_at(place, name, raw_text(raw), checked.rule, checked.suggestion);
    }
  }

  void fill_preset() {
    const Preset* preset = find_preset(draft_.config.model.preset);
    if (!draft_.are_sound({"model.preset"})) lost_sections_.insert("model");
    if (preset == nullptr) return;
    for (const auto& [name, value] : preset->values) {
      const std::string full = "model." + name;
      if (draft_.state(full).origin == Origin::fallback) draft_.set(full, value, Origin::preset);
    }
  }

  void find_missing() {
    for (const Key& key : key_table()) {
      const std::string name = key.full_name();
      if (lost_sections_.count(key.section) != 0 && !draft_.is_explicit(name))
        draft_.state(name).is_sound = false;
      KeyState& state = draft_.state(name);
      if (key.presence == Presence::optional || state.origin != Origin::fallback || !state.is_sound)
        continue;
      state.is_sound = false;
      const bool is_model = key.section == "model";
      draft_.missing(name, fmt::format("{}, {}", type_text(key), key.range.text()),
                     is_model ? "give it, or name a preset by model.preset"
                              : fmt::format("give it in [{}]", key.section));
    }
  }

  Draft& draft_;
  std::map<size_t, RawValue> overrides_;
  std::set<std::string> present_;        // names at the top of the deck
  std::set<std::string> lost_sections_;  // their keys could not be read
  std::set<std::string> guessed_;        // keys that a mistyped name may have meant
};

}  // namespace

void read_into(Draft& draft, const std::string& text, const std::vector<std::string>& overrides) {
  Reader(draft).read(text, overrides);
}

}  // namespace espalier
