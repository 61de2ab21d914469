// SPDX-License-Identifier: Apache-2.0
// Byte-level alphabet, both ways.
#include "corpus/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

constexpr char32_t kMostCode = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> code_of{};
  std::array<int16_t, kMostCode> byte_of{};

  Alphabet() {
    byte_of.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      const char32_t code = prints ? static_cast<char32_t>(byte) : next++;
      code_of[static_cast<size_t>(byte)] = code;
      byte_of[code] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet kAlphabet;

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string word;
  word.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(kAlphabet.code_of[static_cast<unsigned char>(c)], word);
  return word;
}

bool from_byte_alphabet(std::string_view word, std::string& bytes) {
  bytes.clear();
  for (size_t at = 0; at < word.size();) {
    const Character c = read_character(word.data() + at);
    if (c.code >= kMostCode || kAlphabet.byte_of[c.code] < 0) return false;
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[c.code]));
    at += c.bytes;
  }
  return true;
}

}  // namespace espalier
