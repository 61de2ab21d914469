// SPDX-License-Identifier: Apache-2.0
// Any text as a deck, with any overrides: the reader never throws and never crashes, says nothing
// that would reach a terminal as a control sequence, and a deck that it accepts has an effective
// deck that is accepted again and says the same.
#include <cstdlib>
#include <string>
#include <vector>

#include "deck/deck.hpp"

namespace {

void demand_one_plain_line(const espalier::Fault& fault) {
  const std::string text = fault.text();
  if (text.empty()) std::abort();
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) std::abort();
}

}  // namespace

// The deck, then an override behind each zero byte. The length chooses the ranks.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace espalier;
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < size; ++i)
    if (data[i] == 0)
      parts.emplace_back();
    else
      parts.back() += static_cast<char>(data[i]);
  const std::vector<std::string> overrides(parts.begin() + 1, parts.end());
  const std::optional<int64_t> ranks =
      size % 3 == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(size % 7));
  const DeckResult first = parse_deck(parts[0], "fuzz.toml", overrides, ranks);
  for (const Fault& fault : first.faults) demand_one_plain_line(fault);
  for (const Fault& warning : first.warnings) demand_one_plain_line(warning);
  if (!first.ok()) return 0;
  const DeckResult second = parse_deck(effective_deck(first), "fuzz.toml", {}, ranks);
  if (!second.ok() || !have_same_values(first.config, second.config)) std::abort();
  const std::string again = effective_deck(second);
  if (again != effective_deck(parse_deck(again, "fuzz.toml", {}, ranks))) std::abort();
  return 0;
}
