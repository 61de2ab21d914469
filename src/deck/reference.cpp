// SPDX-License-Identifier: Apache-2.0
// The deck reference, for the terminal and as docs/deck.md, printed from the key table.
#include <fmt/format.h>

#include "core/error.hpp"
#include "deck/deck.hpp"
#include "deck/guess.hpp"
#include "deck/key_table.hpp"
#include "deck/presets.hpp"
#include "deck/reference_text.hpp"

namespace espalier {
namespace {

std::string default_text(const KeyFacts& key) {
  if (key.presence == Presence::required) return "required";
  const std::string value = toml_text(key.fallback);
  return key.automatic.empty() ? value : fmt::format("{} (automatic)", value);
}

// "integer, tokens, 1 to 64": what may stand behind the equals sign.
std::string value_form(const KeyFacts& key) {
  std::string text = type_text(key);
  if (!key.unit.empty()) text += ", " + key.unit;
  const std::string range = key.range.text();
  if (!range.empty()) text += ", " + range;
  return text;
}

std::string help_text(const KeyFacts& key) {
  if (key.automatic.empty()) return key.help;
  return fmt::format("{} {}: {}.", key.help, toml_text(key.fallback), key.automatic);
}

std::string section_reference(const Section& section) {
  std::string out = fmt::format("[{}]  {}\n", section.name, section.help);
  for (const Key& key : key_table()) {
    if (key.section == section.name) out += reference_entry(key);
  }
  if (section.name != "model") return out;
  out += "\n  Presets:\n";
  for (const Preset& preset : presets())
    out += fmt::format("      {:<12} {}\n", preset.name, preset.source);
  return out;
}

std::string escaped(std::string text) {
  for (size_t i = 0; (i = text.find('|', i)) != std::string::npos; i += 2) text.insert(i, "\\");
  return text;
}

std::string preset_value(const Preset& preset, const std::string& name) {
  for (const auto& [key, value] : preset.values)
    if (key == name) return toml_text(value);
  return "";
}

std::string preset_tables() {
  std::string out =
      "\n### Presets\n\n`model.preset` fills the keys of this section that the deck does not name. "
      "An empty place\nis left to the automatic value or the default.\n\n| key |";
  for (const Preset& preset : presets()) out += fmt::format(" {} |", preset.name);
  out += "\n| --- |";
  for (size_t i = 0; i < presets().size(); ++i) out += " --- |";
  out += "\n";
  for (const Key& key : key_table()) {
    if (key.section != "model" || key.name == "preset") continue;
    std::string row;
    bool is_used = false;
    for (const Preset& preset : presets()) {
      const std::string value = preset_value(preset, key.name);
      is_used = is_used || !value.empty();
      row += value.empty() ? " |" : fmt::format(" {} |", value);
    }
    if (is_used) out += fmt::format("| {} |{}\n", key.name, row);
  }
  out += "\nSources of the shapes:\n\n";
  for (const Preset& preset : presets())
    out += fmt::format("- {}: {}\n", preset.name, preset.source);
  return out;
}

}  // namespace

std::string reference_entry(const KeyFacts& key) {
  return fmt::format("\n  {} = {}\n      {}\n      {}\n", key.name, default_text(key),
                     value_form(key), help_text(key));
}

std::string reference_table_head() {
  return "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
}

std::string reference_row(const KeyFacts& key) {
  return fmt::format(
      "| `{}` | {} | {} | {} |\n", key.name, escaped(value_form(key)),
      escaped(key.presence == Presence::required ? "required"
                                                 : "`" + toml_text(key.fallback) + "`"),
      escaped(help_text(key)));
}

std::string deck_reference(const std::string& section) {
  std::string out;
  for (const Section& s : deck_sections())
    if (section.empty() || s.name == section)
      out += (out.empty() ? "" : "\n") + section_reference(s);
  if (!out.empty()) return out;
  std::vector<std::string> names;
  for (const Section& s : deck_sections()) names.push_back(s.name);
  const std::string guess = guess_section(section);
  throw DeckError(fmt::format("[{}] is not a section of a deck; {}", section,
                              guess.empty() ? fmt::format("choose {}", fmt::join(names, ", "))
                                            : fmt::format("did you mean {}?", guess)));
}

std::string deck_reference_markdown() {
  std::string out =
      "<!-- Written by `espalier deck --markdown`; a test compares. Do not edit. -->\n"
      "# The deck\n\n"
      "A deck is a TOML file with the sections below. Every key may be set on the command line as\n"
      "well: `--set section.key=value`. A value is TOML; a word that is not TOML is a string.\n"
      "Unknown sections and keys are faults. `espalier check DECK` lists all faults of a deck, "
      "and\n"
      "`espalier deck --effective DECK` prints every key with its value and where it came from.\n";
  for (const Section& section : deck_sections()) {
    out += fmt::format("\n## {}\n\n{}\n\n{}", section.name, section.help, reference_table_head());
    for (const Key& key : key_table())
      if (key.section == section.name) out += reference_row(key);
    if (section.name == "model") out += preset_tables();
  }
  return out;
}

}  // namespace espalier
