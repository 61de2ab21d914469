// SPDX-License-Identifier: Apache-2.0
// The patterns of GPT-2, Llama 3 and Qwen 2 by hand: several times faster than a general engine.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace espalier {

enum class Scanner { none, gpt2, llama3, qwen2 };

/// The scanner whose pieces are the matches of this expression (which match every character).
Scanner scanner_of(const std::string& expression);

/// The expression that a scanner stands for.
const char* scanner_expression(Scanner scanner);

/// End of the piece that begins at `at` < text.size(). The text is valid UTF-8.
size_t scan_piece(Scanner scanner, std::string_view text, size_t at);

}  // namespace espalier
