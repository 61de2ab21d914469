// SPDX-License-Identifier: Apache-2.0
// JSON whose characters are broken, made readable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

/// Copies JSON with each broken sequence of UTF-8, and each escape of half a surrogate pair
/// (\ud83d without \ude00 behind it), replaced by U+FFFD. Their number is returned.
int64_t repair_json(std::string_view json, std::string& repaired);

/// Copies JSON with each number outside of strings replaced by 0: numbers that no machine type
/// holds do not matter where only a text is wanted.
void blank_numbers(std::string_view json, std::string& blanked);

}  // namespace espalier
