// SPDX-License-Identifier: Apache-2.0
// The little that this room needs to know about UTF-8: where characters end, and what is broken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace espalier {

/// Number of broken sequences, each the longest start of a character that cannot go on (so that
/// each becomes one U+FFFD).
/// Source    The Unicode Standard 15, section 3.9, table 3-7 and "maximal subpart"
int64_t count_broken_utf8(std::string_view text);

/// Where the first broken sequence begins; std::string_view::npos if all is well.
size_t find_broken_utf8(std::string_view text);

/// The text with each broken sequence replaced by U+FFFD: valid UTF-8.
std::string printable_text(std::string_view text);

/// The longest beginning of a text, not empty, that is valid UTF-8 throughout or broken throughout.
struct Utf8Run {
  size_t bytes;
  bool valid;
};
Utf8Run utf8_run(std::string_view text);

/// The last place <= at where the text may be cut without cutting a character; `at` itself where
/// the bytes before it are no character. Never 0 unless at is 0 or the first character is longer.
size_t utf8_boundary(std::string_view text, size_t at);

}  // namespace espalier
