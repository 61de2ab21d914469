// SPDX-License-Identifier: Apache-2.0
// The option --set section.key=value, the same for every verb that reads a deck.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace espalier {

/// May be given again for each key; takes one word, so that what follows is not swallowed.
inline CLI::Option* add_overrides(CLI::App& verb, std::vector<std::string>& overrides) {
  return verb.add_option("--set", overrides, "section.key=value, over what the deck says")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

}  // namespace espalier
