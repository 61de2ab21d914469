// SPDX-License-Identifier: Apache-2.0
// Guesses at mistyped names and suggestions of legal numbers.
#include "deck/guess.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "deck/key_table.hpp"

namespace espalier {
namespace {

constexpr size_t kLongestWord = 64;

char lower_case(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

std::string try_values(const std::vector<int64_t>& values) {
  return values.empty() ? "" : fmt::format("try {}", fmt::join(values, " or "));
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  if (a.size() > kLongestWord || b.size() > kLongestWord)
    return static_cast<int>(std::min<size_t>(std::max(a.size(), b.size()), 1 << 20));
  std::array<std::array<int, kLongestWord + 1>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& now = rows[i % 3];
    const auto& before = rows[(i + 2) % 3];
    const auto& before_that = rows[(i + 1) % 3];
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool is_same = lower_case(a[i - 1]) == lower_case(b[j - 1]);
      now[j] = std::min({before[j] + 1, now[j - 1] + 1, before[j - 1] + (is_same ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                           lower_case(a[i - 2]) == lower_case(b[j - 1]);
      if (is_swap) now[j] = std::min(now[j], before_that[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  // Of short words two letters are half of the meaning: fp16 is not near fp32.
  int limit = word.size() <= 4 ? 1 : std::max<int>(2, static_cast<int>(word.size()) / 3);
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance <= limit && distance < static_cast<int>(candidate.size())) {
      best = candidate;
      limit = distance - 1;
    }
  }
  return best;
}

std::string guess_key(std::string_view section, std::string_view name) {
  std::vector<std::string> near;
  std::vector<std::string> far;
  std::string same_name;
  std::string alias;
  for (const Key& key : key_table()) {
    (key.section == section ? near : far).push_back(key.name);
    if (key.name == name) same_name = key.full_name();
    const bool is_alias =
        std::find(key.aliases.begin(), key.aliases.end(), name) != key.aliases.end();
    if (is_alias && (alias.empty() || key.section == section)) alias = key.full_name();
  }
  if (!same_name.empty()) return same_name;
  if (!alias.empty()) return alias;
  const std::string in_section = nearest_word(name, near);
  if (!in_section.empty()) return fmt::format("{}.{}", section, in_section);
  const std::string elsewhere = nearest_word(name, far);
  for (const Key& key : key_table())
    if (key.name == elsewhere) return key.full_name();
  return "";
}

std::string guess_section(std::string_view name) {
  std::vector<std::string> names;
  for (const Section& section : deck_sections()) names.push_back(section.name);
  return nearest_word(name, names);
}

std::string try_nearest(int64_t value, int64_t lower, int64_t upper,
                        const std::function<bool(int64_t)>& is_legal) {
  std::vector<int64_t> found;
  for (int64_t v = std::min(value - 1, upper); v >= lower; --v)
    if (is_legal(v)) {
      found.push_back(v);
      break;
    }
  for (int64_t v = std::max(value + 1, lower); v <= upper; ++v)
    if (is_legal(v)) {
      found.push_back(v);
      break;
    }
  return try_values(found);
}

std::string try_multiples(int64_t value, int64_t lower, int64_t upper, int64_t factor) {
  std::vector<int64_t> found;
  const int64_t below = (value - 1) / factor * factor;
  if (below >= lower && below <= upper && below > 0) found.push_back(below);
  const int64_t above = value / factor * factor + factor;
  if (above >= lower && above <= upper) found.push_back(above);
  return try_values(found);
}

}  // namespace espalier
