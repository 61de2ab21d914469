// SPDX-License-Identifier: Apache-2.0
// Private to the deck room: one key in a reference, for the terminal and in Markdown.
#pragma once

#include <string>

#include "deck/key_table.hpp"

namespace espalier {

std::string reference_entry(const KeyFacts& key);  ///< lines for the terminal
std::string reference_table_head();                ///< of a Markdown table
std::string reference_row(const KeyFacts& key);    ///< of that table

}  // namespace espalier
