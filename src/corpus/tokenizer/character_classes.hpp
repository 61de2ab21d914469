// SPDX-License-Identifier: Apache-2.0
// Classes of characters that pre-tokenisation asks for, and characters out of UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

enum CharacterClass : uint8_t {
  kOther = 0,
  kLetter = 1,  // general category L
  kNumber = 2,  // general category N
  kSpace = 3,   // White_Space
};

/// Class of every code point, 0 to 0x10FFFF; made once from ICU's data.
const uint8_t* character_classes();

struct Character {
  char32_t code;
  uint8_t bytes;
};

/// The character at `p` of valid UTF-8.
inline Character read_character(const char* p) {
  const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

/// Bytes of the character that this byte begins, in valid UTF-8.
inline size_t character_bytes(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

void append_utf8(char32_t code, std::string& text);

bool is_white_space(char32_t code);
/// \w of the reference: Alphabetic, marks, decimal digits, connectors and joiners.
bool is_word_character(char32_t code);

/// Bytes of white space at the beginning, and where the white space at the end begins.
size_t leading_space(std::string_view text);
size_t trailing_space_begin(std::string_view text);
/// The last character of a text that is not empty.
Character last_character(std::string_view text);

}  // namespace espalier
