// SPDX-License-Identifier: Apache-2.0
// Character classes from ICU.
#include "corpus/tokenizer/character_classes.hpp"

#include <unicode/uchar.h>

#include <vector>

namespace espalier {
namespace {

constexpr char32_t kCodes = 0x110000;

std::vector<uint8_t> make_classes() {
  std::vector<uint8_t> classes(kCodes, kOther);
  for (char32_t c = 0; c < kCodes; ++c) {
    const auto code = static_cast<UChar32>(c);
    const uint32_t mask = U_GET_GC_MASK(code);
    if ((mask & U_GC_L_MASK) != 0) {
      classes[c] = kLetter;
    } else if ((mask & U_GC_N_MASK) != 0) {
      classes[c] = kNumber;
    } else if (u_isUWhiteSpace(code) != 0) {
      classes[c] = kSpace;
    }
  }
  return classes;
}

}  // namespace

const uint8_t* character_classes() {
  static const std::vector<uint8_t> classes = make_classes();
  return classes.data();
}

void append_utf8(char32_t code, std::string& text) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

bool is_white_space(char32_t code) {
  return u_isUWhiteSpace(static_cast<UChar32>(code)) != 0;
}

bool is_word_character(char32_t code) {
  const auto c = static_cast<UChar32>(code);
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0 ||
         (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character c = read_character(text.data() + at);
    if (!is_white_space(c.code)) break;
    at += c.bytes;
  }
  return at;
}

Character last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return read_character(text.data() + at);
}

size_t trailing_space_begin(std::string_view text) {
  while (!text.empty()) {
    const Character c = last_character(text);
    if (!is_white_space(c.code)) break;
    text.remove_suffix(c.bytes);
  }
  return text.size();
}

}  // namespace espalier
