// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: a look at TOML text before toml++ reads it.
#pragma once

#include <optional>
#include <string>

#include "deck/toml_text.hpp"

namespace espalier {

/// The first character beyond ASCII that stands outside strings and comments, where TOML 1.0 allows
/// none, or that begins a line behind a line-ending backslash. Nothing if there is none.
///
/// Both send toml++ (3.3, and 3.4) into code that it marks unreachable, so undefined behaviour:
/// github.com/marzer/tomlplusplus, issues 190 and 295.
std::optional<Place> find_foreign_character(const std::string& text, const std::string& file);

}  // namespace espalier
