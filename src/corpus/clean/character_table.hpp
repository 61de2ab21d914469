// SPDX-License-Identifier: Apache-2.0
// What the cleaning steps ask of a character, in one table made from ICU's properties, and one pass
// over a text that counts all of it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace espalier {

// An entry of the table: the script (ICU's UScriptCode) in the low byte, and these bits.
constexpr uint16_t kScriptMask = 0xFF;
constexpr uint16_t kLetter = 1 << 8;    // general category L
constexpr uint16_t kNoSymbol = 1 << 9;  // L, M, N, White_Space, and the joiners U+200C, U+200D
constexpr uint16_t kControl = 1 << 10;  // category Cc but tab and line feed, and U+FEFF
constexpr uint16_t kNotNfc = 1 << 11;   // may change or move under NFC: not a quick "yes"
constexpr uint16_t kNotNfkc = 1 << 12;
constexpr uint16_t kBlank = 1 << 13;   // White_Space
constexpr uint16_t kBroken = 1 << 14;  // of TextScan::flags only: not UTF-8

/// One entry a code point, 0 to U+10FFFF; made at the first call (some 20 ms), then shared.
const std::vector<uint16_t>& character_table();

using ScriptSet = std::array<uint8_t, 256>;  // 1 for the scripts of a language

/// Counts over a text. A broken sequence of UTF-8 is one character, and a symbol.
struct TextScan {
  int64_t characters = 0;
  int64_t symbols = 0;         // characters without kNoSymbol
  int64_t letters = 0;         // of any script but Common and Inherited
  int64_t script_letters = 0;  // letters in the given scripts
  uint16_t flags = 0;          // all bits above that any character has
};

/// Cost  one pass; 64 ASCII bytes at a time where they stand together
TextScan scan_text(std::string_view text, const ScriptSet& scripts);

}  // namespace espalier
