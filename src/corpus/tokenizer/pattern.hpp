// SPDX-License-Identifier: Apache-2.0
// Regular expressions of tokenizer files, matched by PCRE2 with its JIT compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

/// A stretch of a text: a match, or what stands between two.
struct Stretch {
  size_t begin, end;
  bool match;
};

/// Tokenizer files are written for Oniguruma (Ruby syntax, UTF-8). What means something else in
/// PCRE2 is rewritten: \s is White_Space and \w is letters, marks, digits and connectors, scripts
/// are without their extensions, ^ and $ stand at every line. What cannot be rewritten is refused:
/// \h \H \b \B \X \K \G \Q \C, \W in a class, nested classes and &&, and (?m).
/// Left to differ: characters that came with Unicode 15 (PCRE2 10.42 knows Unicode 14).
class Pattern {
 public:
  /// `where` begins the message of errors.
  /// Errors    DataError for a pattern that is none, or is refused
  Pattern(const std::string& expression, const std::string& where);
  static Pattern literal(const std::string& text, const std::string& where);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;

  /// Appends the stretches of the text, from left to right; matches may be empty. Thread-safe.
  /// Errors    DataError where a match takes too long
  void find(std::string_view text, std::vector<Stretch>& stretches) const;

 private:
  struct Code;
  Pattern();
  std::unique_ptr<Code> code_;
};

/// The expression in PCRE2's words.
std::string translate_expression(const std::string& expression, const std::string& where);

}  // namespace espalier
