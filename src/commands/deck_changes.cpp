// SPDX-License-Identifier: Apache-2.0
#include "commands/deck_changes.hpp"

#include <fmt/format.h>

#include <set>

#include "deck/key_table.hpp"

namespace espalier {
namespace {

bool is_conduct(const std::string& key, const std::string& section, const Config& after) {
  static const std::set<std::string> keys = {
      "run.directory",      "run.time_limit",        "data.prefetch_steps",
      "data.workers",       "data.verify",           "numerics.graphs",
      "grid.share_devices", "grid.device_transport", "grid.staging_mib"};
  // The length of the run is only conduct where the learning rate does not look at it.
  if (key == "run.steps") return after.schedule.decay == DecayKind::constant;
  return section == "checkpoint" || section == "monitor" || keys.count(key) != 0;
}

ChangeKind kind_of(const Key& key, const Config& before, const Config& after) {
  if (is_conduct(key.full_name(), key.section, after)) return ChangeKind::conduct;
  if (key.section != "grid") return ChangeKind::arithmetic;
  const bool is_fixed = before.numerics.reproducible && after.numerics.reproducible;
  return is_fixed ? ChangeKind::placement : ChangeKind::rounding;
}

const char* meaning(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::arithmetic: return "ALTERS THE ARITHMETIC";
    case ChangeKind::rounding:
      return "alters who does it, and with it the rounding of sums (numerics.reproducible = false)";
    case ChangeKind::placement: return "alters who does it, not the arithmetic";
    case ChangeKind::conduct: return "does not touch the arithmetic";
  }
  return "";
}

}  // namespace

std::string DeckChange::text() const {
  return fmt::format("{} {} -> {}: {}", key, before, after, meaning(kind));
}

std::vector<DeckChange> compare_decks(const Config& before, const Config& after) {
  std::vector<DeckChange> changes;
  for (const Key& key : key_table()) {
    const KeyValue old_value = key.get(before), new_value = key.get(after);
    if (old_value == new_value) continue;
    changes.push_back(
        {key.full_name(), toml_text(old_value), toml_text(new_value), kind_of(key, before, after)});
  }
  return changes;
}

}  // namespace espalier
