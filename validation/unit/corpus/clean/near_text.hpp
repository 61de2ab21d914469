// SPDX-License-Identifier: Apache-2.0
// Texts that are alike to a wished degree, and their true similarity by sets of shingles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "core/random.hpp"

namespace espalier::testing {

/// `words` words of four to nine letters with single blanks between; with chance `edits` each is
/// another one. The same seed and edits = 0 give the same text.
inline std::string words_text(uint64_t seed, int64_t words, double edits = 0.0,
                              uint64_t edit_seed = 1) {
  std::string text;
  for (int64_t w = 0; w < words; ++w) {
    const auto at = static_cast<uint64_t>(w);
    const bool other = random_uniform(seed * 1000003 + edit_seed, hash_name("edit"), at) < edits;
    const uint64_t from = other ? seed * 1000003 + edit_seed : seed;
    const uint64_t purpose = hash_name(other ? "other word" : "word");
    const uint64_t bits = random_bits(from, purpose, at * 2);
    if (w > 0) text += ' ';
    uint64_t letters = random_bits(from, purpose, at * 2 + 1);
    for (uint64_t i = 0; i < 4 + bits % 6; ++i, letters /= 26)
      text += static_cast<char>('a' + letters % 26);
  }
  return text;
}

/// Jaccard similarity of the sets of `k` bytes in a row (ASCII, lower case, single blanks).
inline double true_similarity(const std::string& a, const std::string& b, size_t k) {
  const auto shingles = [k](const std::string& text) {
    std::set<std::string> set;
    for (size_t i = 0; i + k <= text.size(); ++i) set.insert(text.substr(i, k));
    return set;
  };
  const std::set<std::string> x = shingles(a), y = shingles(b);
  size_t both = 0;
  for (const std::string& s : x) both += y.count(s);
  const size_t any = x.size() + y.size() - both;
  return any == 0 ? 0.0 : static_cast<double>(both) / static_cast<double>(any);
}

}  // namespace espalier::testing
