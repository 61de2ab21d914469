// SPDX-License-Identifier: Apache-2.0
// The scripts that a language is written in.
#pragma once

#include <string>

#include "corpus/clean/character_table.hpp"

namespace espalier {

/// Sets the scripts of a BCP 47 tag in `scripts` and returns how many they are; 0 for a language
/// that is not known. "ja": Hiragana, Katakana, Han. A script in the tag ("sr-Latn") leaves only
/// that one; else languages with several scripts in use ("sr", "uz", ...) have them all.
/// Source    CLDR's data in ICU (uscript_getCode), and a short table of languages with more scripts
int scripts_of_language(const std::string& tag, ScriptSet& scripts);

}  // namespace espalier
