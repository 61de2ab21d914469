// SPDX-License-Identifier: Apache-2.0
// Corpus decks: TOML to CorpusConfig by the tables of corpus_keys.hpp, with all faults at once.
#include "deck/corpus_deck.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/log.hpp"
#include "deck/corpus_draft.hpp"
#include "deck/corpus_keys.hpp"
#include "deck/draft.hpp"
#include "deck/guess.hpp"
#include "deck/value_check.hpp"

namespace espalier {
namespace {

template <class K>
const K* find_key(const std::vector<K>& table, const std::string& section,
                  const std::string& name) {
  for (const K& key : table)
    if (key.section == section && key.name == name) return &key;
  return nullptr;
}

// Both tables as facts alone.
template <class F>
void for_each_key(const F& f) {
  for (const CorpusKey& key : corpus_keys()) f(static_cast<const KeyFacts&>(key));
  for (const SourceKey& key : source_keys()) f(static_cast<const KeyFacts&>(key));
}

std::string guess_corpus_key(const std::string& section, const std::string& name) {
  std::string elsewhere, alias;
  std::vector<std::string> near;
  for_each_key([&](const KeyFacts& key) {
    if (key.section == section) near.push_back(key.name);
    if (key.name == name && key.section != section) elsewhere = key.full_name();
    if (std::find(key.aliases.begin(), key.aliases.end(), name) != key.aliases.end() &&
        (alias.empty() || key.section == section))
      alias = key.section == section ? key.name : key.full_name();
  });
  const std::string in_section = nearest_word(name, near);
  if (!in_section.empty()) return in_section;
  return alias.empty() ? elsewhere : alias;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Section& section : corpus_sections()) names.push_back(section.name);
  return names;
}

class CorpusReader {
 public:
  explicit CorpusReader(CorpusDraft& draft) : draft_(draft) {}

  void read(const std::string& text, const std::vector<std::string>& overrides) {
    const RawDeck raw = parse_toml(text, draft_.file());
    if (raw.is_broken) {
      draft_.fault_at(raw.error_place, "", "", "this is not TOML: " + printable(raw.error), "");
      is_broken_ = true;
    }
    for (const RawEntry& entry : raw.entries) read_top(entry);
    for (const std::string& item : overrides) read_override(item);
    if (!is_broken_) find_missing();
  }

  bool is_broken() const { return is_broken_; }

 private:
  void read_top(const RawEntry& entry) {
    if (entry.name == kSourceSection) return read_sources(entry);
    const std::vector<std::string> names = section_names();
    if (std::find(names.begin(), names.end(), entry.name) == names.end()) {
      const std::string guess = nearest_word(entry.name, names);
      draft_.fault_at(entry.place, name_text(entry.name), "", "is not a section of a corpus deck",
                      guess.empty() ? fmt::format("the sections are {}", fmt::join(names, ", "))
                                    : fmt::format("did you mean [{}]?", guess));
      return;
    }
    if (entry.value.kind != RawKind::table) {
      draft_.fault_at(entry.place, entry.name, raw_text(entry.value), "a section is expected",
                      fmt::format("write [{}] and its keys below", entry.name));
      return;
    }
    for (const RawEntry& row : entry.value.entries) {
      const CorpusKey* key = find_key(corpus_keys(), entry.name, row.name);
      if (key == nullptr)
        unknown_key(entry.name, row);
      else
        assign(*key, row.value, row.place, kNoSource, draft_.config);
    }
  }

  void read_sources(const RawEntry& entry) {
    const RawValue& value = entry.value;
    const bool is_list =
        value.kind == RawKind::list &&
        std::all_of(value.items.begin(), value.items.end(),
                    [](const RawValue& item) { return item.kind == RawKind::table; });
    if (!is_list) {
      draft_.fault_at(entry.place, kSourceSection, "", "must stand in double brackets",
                      "write [[source]] for each source");
      has_bad_sources_ = true;
      return;
    }
    for (const RawValue& item : value.items) {
      const auto index = static_cast<int64_t>(draft_.config.sources.size());
      draft_.set_source_place(item.entries.empty() ? entry.place : item.entries.front().place);
      OneSource one;
      for (const RawEntry& row : item.entries) {
        const SourceKey* key = find_key(source_keys(), kSourceSection, row.name);
        if (key == nullptr)
          unknown_key(kSourceSection, row);
        else
          assign(*key, row.value, row.place, index, one);
      }
      draft_.config.sources.push_back(std::move(one.source));
    }
  }

  void unknown_key(const std::string& section, const RawEntry& row) {
    const std::string guess = guess_corpus_key(section, row.name);
    draft_.fault_at(row.place, name_text(section) + "." + name_text(row.name), "", "is not a key",
                    guess.empty() ? std::string("espalier deck --corpus lists the keys")
                                  : fmt::format("did you mean {}?", guess));
  }

  template <class C>
  void assign(const KeyOf<C>& key, const RawValue& raw, const Place& place, int64_t source,
              C& target) {
    draft_.set_place(key.full_name(), source, place);
    const CheckedValue checked = check_value(key, raw);
    if (checked.rule.empty()) {
      key.set(target, checked.value);
      return;
    }
    draft_.set_unsound(key.full_name(), source);
    draft_.fault_at(place, key.full_name(), raw_text(raw), checked.rule, checked.suggestion);
  }

  void read_override(const std::string& item) {
    const Place place = {"--set", 0, 0};
    const size_t equals = item.find('='), dot = item.find('.');
    if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
      draft_.fault_at(place, "", "", printable(toml_quote(item)) + " is not an override",
                      "write section.key=value");
      return;
    }
    const auto trim = [](std::string text) {
      text.erase(0, text.find_first_not_of(" \t"));
      text.erase(text.find_last_not_of(" \t") + 1);
      return text;
    };
    const std::string section = trim(item.substr(0, dot));
    const std::string name = trim(item.substr(dot + 1, equals - dot - 1));
    const std::string text = trim(item.substr(equals + 1));
    const CorpusKey* key = find_key(corpus_keys(), section, name);
    if (key == nullptr) {
      if (section == kSourceSection)
        draft_.fault_at(place, name_text(section) + "." + name_text(name), "",
                        "cannot be set for one source of several", "write it into the deck");
      else
        unknown_key(section, {name, place, {}});
      return;
    }
    const std::optional<RawValue> value = parse_toml_value(text);
    if (!value && !is_utf8(text)) {
      draft_.fault_at(place, key->full_name(), "", "has a value that is not UTF-8", "");
      return;
    }
    assign(*key, value ? *value : to_raw(KeyValue(text)), place, kNoSource, draft_.config);
  }

  void find_missing() {
    for (size_t i = 0; i < draft_.config.sources.size(); ++i)
      for (const SourceKey& key : source_keys()) {
        const auto source = static_cast<int64_t>(i);
        if (key.presence == Presence::optional || draft_.is_explicit(key.full_name(), source))
          continue;
        draft_.set_unsound(key.full_name(), source);
        draft_.missing(key.full_name(), source, type_text(key), "give it below this [[source]]");
      }
    if (draft_.config.sources.empty() && !has_bad_sources_)
      draft_.missing(kSourceSection, kNoSource, "there is nothing to read",
                     "write [[source]] with name and paths");
  }

  CorpusDraft& draft_;
  bool is_broken_ = false, has_bad_sources_ = false;
};

}  // namespace

CorpusDraft::CorpusDraft(std::string file) : file_(std::move(file)) {
  config.deck_path = file_;
}

bool CorpusDraft::is_explicit(const std::string& name, int64_t source) const {
  return places_.count({source, name}) != 0;
}

bool CorpusDraft::is_sound(const std::string& name, int64_t source) const {
  return unsound_.count({source, name}) == 0;
}

void CorpusDraft::set_place(const std::string& name, int64_t source, const Place& place) {
  places_[{source, name}] = place;
}

void CorpusDraft::set_unsound(const std::string& name, int64_t source) {
  unsound_.emplace(source, name);
}

Fault CorpusDraft::about(const std::string& name, int64_t source) const {
  Fault fault;
  fault.key = name;
  fault.file = file_;
  Place place;
  const auto found = places_.find({source, name});
  if (found != places_.end())
    place = found->second;
  else if (source != kNoSource && static_cast<size_t>(source) < source_places_.size())
    place = source_places_[static_cast<size_t>(source)];
  if (!place.file.empty()) fault.file = place.file;
  fault.line = place.line;
  fault.column = place.column;
  return fault;
}

void CorpusDraft::fault(const std::string& name, int64_t source, const std::string& rule,
                        const std::string& suggestion) {
  Fault fault = about(name, source);
  const size_t dot = name.find('.');
  const std::string section = name.substr(0, dot), key_name = name.substr(dot + 1);
  if (const CorpusKey* key = find_key(corpus_keys(), section, key_name)) {
    fault.value = raw_text(to_raw(key->get(config)));
  } else if (const SourceKey* row = find_key(source_keys(), section, key_name)) {
    OneSource one{config.sources[static_cast<size_t>(source)]};
    fault.value = raw_text(to_raw(row->get(one)));
  }
  fault.rule = rule;
  fault.suggestion = suggestion;
  faults.push_back(std::move(fault));
}

void CorpusDraft::warn(const std::string& name, int64_t source, const std::string& rule,
                       const std::string& suggestion) {
  fault(name, source, rule, suggestion);
  warnings.push_back(std::move(faults.back()));
  faults.pop_back();
}

void CorpusDraft::missing(const std::string& name, int64_t source, const std::string& why,
                          const std::string& suggestion) {
  Fault fault = about(name, source);
  fault.rule = fmt::format("is missing ({})", why);
  fault.suggestion = suggestion;
  faults.push_back(std::move(fault));
}

void CorpusDraft::fault_at(const Place& place, const std::string& key, const std::string& value,
                           const std::string& rule, const std::string& suggestion) {
  faults.push_back({place.file, place.line, place.column, key, value, rule, suggestion});
}

CorpusDeckResult parse_corpus_deck(const std::string& text, const std::string& name,
                                   const std::vector<std::string>& overrides) {
  CorpusDraft draft(name);
  CorpusReader reader(draft);
  reader.read(text, overrides);
  if (!reader.is_broken()) check_corpus(draft);
  CorpusDeckResult result{std::move(draft.config), std::move(draft.faults),
                          std::move(draft.warnings)};
  sort_by_place(result.faults);
  sort_by_place(result.warnings);
  return result;
}

CorpusDeckResult read_corpus_deck(const std::string& path,
                                  const std::vector<std::string>& overrides) {
  const FileText file = read_deck_file(path);
  if (file.error.empty()) return parse_corpus_deck(file.text, path, overrides);
  CorpusDeckResult result;
  result.config.deck_path = path;
  result.faults.push_back(unreadable_deck(path, file.error));
  return result;
}

CorpusConfig require_corpus_deck(const std::string& path,
                                 const std::vector<std::string>& overrides) {
  CorpusDeckResult result = read_corpus_deck(path, overrides);
  if (!result.ok()) throw DeckError(fault_list(result.faults));
  for (const Fault& warning : result.warnings) print_warning(warning.text());
  return std::move(result.config);
}

bool is_corpus_deck(const std::string& path) {
  const FileText file = read_deck_file(path);
  if (!file.error.empty()) return false;
  const RawDeck raw = parse_toml(file.text, path);
  return std::any_of(raw.entries.begin(), raw.entries.end(), [](const RawEntry& entry) {
    return entry.name == kSourceSection || entry.name == "build";
  });
}

std::vector<Fault> corpus_faults(const CorpusConfig& config) {
  CorpusDraft draft(config.deck_path);
  draft.config = config;
  check_corpus(draft);
  return std::move(draft.faults);
}

}  // namespace espalier
