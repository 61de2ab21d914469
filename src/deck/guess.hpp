// SPDX-License-Identifier: Apache-2.0
// What a mistyped word may have meant.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// Edits (insert, delete, replace, swap of neighbours) that turn a into b; letter case is free.
/// Words beyond 64 bytes are as far apart as they are long.
/// Source  the optimal string alignment distance, Boytsov 2011, ACM JEA 16, section 2.1
int edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" if none is near: a third of the
/// length of `word` and at least 2 edits, or 1 for words of up to four letters.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

/// What "section.name", which is no key, may have meant, as a full name, or "": a key of that
/// section, the same name in another section, another program's word for a key, a near word.
std::string guess_key(std::string_view section, std::string_view name);

/// The section that `name`, which is none, may have meant, or "".
std::string guess_section(std::string_view name);

/// "try 2 or 4": legal values next to `value` on either side within [lower, upper]; "" if none.
/// `is_legal` is asked about one value after another, so keep the interval small (2^20 or so).
std::string try_nearest(int64_t value, int64_t lower, int64_t upper,
                        const std::function<bool(int64_t)>& is_legal);

/// The same for multiples of `factor`, by arithmetic.
std::string try_multiples(int64_t value, int64_t lower, int64_t upper, int64_t factor);

}  // namespace espalier
