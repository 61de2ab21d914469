// SPDX-License-Identifier: Apache-2.0
// The door of the room: text or file to a judged Config.
#include "deck/deck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <tuple>

#include "core/error.hpp"
#include "core/log.hpp"
#include "deck/draft.hpp"

namespace espalier {
namespace {

constexpr size_t kLargestDeck = size_t{4} << 20;  // bytes; a deck is written by hand

std::string origin_text(const Draft& draft, const Key& key) {
  switch (draft.state(key.full_name()).origin) {
    case Origin::fallback: return "default";
    case Origin::preset: return "preset " + draft.config.model.preset;
    case Origin::deck: return "deck";
    case Origin::command_line: return "override";
    case Origin::automatic: return "automatic";
  }
  return "?";
}

}  // namespace

FileText read_deck_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (!file) return {"", std::strerror(errno)};
  FileText result;
  char buffer[16384];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, file.get())) > 0) {
    result.text.append(buffer, count);
    if (result.text.size() > kLargestDeck) return {"", "it is larger than 4 MiB, so no deck"};
  }
  if (std::ferror(file.get()) != 0) return {"", std::strerror(errno)};
  return result;
}

Fault unreadable_deck(const std::string& path, const std::string& error) {
  Fault fault;
  fault.file = printable(path);
  fault.rule = fmt::format("cannot read the deck ({})", error);
  fault.suggestion = "give the path of a TOML file";
  return fault;
}

void sort_by_place(std::vector<Fault>& faults) {
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::make_tuple(a.line == 0, a.line, a.column) <
           std::make_tuple(b.line == 0, b.line, b.column);
  });
}

std::string Fault::text() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}:{}", line, column);
  out += ": " + key;
  if (!value.empty())
    out += fmt::format(" = {} ({})", value, rule);
  else
    out += (key.empty() ? "" : " ") + rule;
  if (!suggestion.empty()) out += "; " + suggestion;
  return out;
}

DeckResult parse_deck(const std::string& text, const std::string& name,
                      const std::vector<std::string>& overrides, std::optional<int64_t> ranks) {
  Draft draft(name);
  read_into(draft, text, overrides);
  fill_automatic_values(draft);
  check_model(draft);
  check_grid(draft, ranks);
  check_parallel(draft);
  check_pipeline(draft);
  check_training(draft);
  check_device(draft);
  check_checkpoint(draft);
  check_data(draft);
  warn_without_effect(draft);
  DeckResult result;
  for (const Key& key : key_table()) result.origins[key.full_name()] = origin_text(draft, key);
  result.config = std::move(draft.config);
  result.faults = std::move(draft.faults);
  result.warnings = std::move(draft.warnings);
  sort_by_place(result.faults);
  sort_by_place(result.warnings);
  return result;
}

DeckResult read_deck(const DeckRequest& request) {
  const FileText file = read_deck_file(request.path);
  if (file.error.empty())
    return parse_deck(file.text, request.path, request.overrides, request.ranks);
  DeckResult result;
  result.config.deck_path = request.path;
  result.faults.push_back(unreadable_deck(request.path, file.error));
  return result;
}

std::string fault_list(const std::vector<Fault>& faults) {
  std::string out;
  for (const Fault& fault : faults) out += fault.text() + "\n";
  return out + fmt::format("{} fault{}; nothing was allocated.", faults.size(),
                           faults.size() == 1 ? "" : "s");
}

DeckResult require_deck(const DeckRequest& request) {
  return require_sound(read_deck(request));
}

DeckResult require_sound(DeckResult result) {
  if (!result.ok()) throw DeckError(fault_list(result.faults));
  for (const Fault& warning : result.warnings) print_warning(warning.text());
  return result;
}

}  // namespace espalier
