// SPDX-License-Identifier: Apache-2.0
// The alphabet in which byte-level vocabularies are written: a printable character for each byte.
#pragma once

#include <string>
#include <string_view>

namespace espalier {

/// Each byte as its character.
/// Source    the vocabulary files of GPT-2: bytes that print in Latin-1 stand for themselves, the
///           other 68, in order, are U+0100 and following
std::string to_byte_alphabet(std::string_view bytes);

/// The bytes that a word of the alphabet stands for; false if a character is none of it.
bool from_byte_alphabet(std::string_view word, std::string& bytes);

}  // namespace espalier
