// SPDX-License-Identifier: Apache-2.0
// Scanners for the usual patterns. Each follows the alternatives of its expression in their order.
#include "corpus/tokenizer/scanners.hpp"

#include "core/error.hpp"
#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text), classes_(character_classes()) {}

  size_t size() const { return text_.size(); }
  char byte(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  size_t next(size_t at) const { return at + character_bytes(text_[at]); }

  uint8_t class_at(size_t at) const {
    const auto c = static_cast<unsigned char>(text_[at]);
    return c < 0x80 ? classes_[c] : classes_[read_character(text_.data() + at).code];
  }
  bool is(size_t at, uint8_t wanted) const { return at < text_.size() && class_at(at) == wanted; }

  size_t skip(size_t at, uint8_t wanted) const {
    while (is(at, wanted)) at = next(at);
    return at;
  }

  // \s+(?!\S)|\s+ : blanks but the last, which belongs to the word behind it.
  size_t blanks(size_t at) const {
    size_t end = at, last = at;
    while (is(end, kSpace)) {
      last = end;
      end = next(end);
    }
    return end == text_.size() || last == at ? end : last;
  }

  // Length of 's 't 're 've 'm 'll 'd behind the apostrophe at `at`, or 0.
  size_t contraction(size_t at, bool any_case) const {
    const char fold = any_case ? 0x20 : 0;
    const auto a = static_cast<char>(byte(at + 1) | fold),
               b = static_cast<char>(byte(at + 2) | fold);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
    // The long s folds to s.
    return any_case && text_.compare(at + 1, 2, "\xC5\xBF") == 0 ? 3 : 0;
  }

 private:
  std::string_view text_;
  const uint8_t* classes_;
};

size_t scan_gpt2(const Cursor& text, size_t at) {
  if (text.byte(at) == '\'') {
    const size_t length = text.contraction(at, false);
    if (length != 0) return at + length;
  }
  const size_t begin = text.byte(at) == ' ' ? at + 1 : at;
  if (begin < text.size()) {
    const uint8_t found = text.class_at(begin);
    if (found != kSpace) return text.skip(begin, found);
  }
  return text.blanks(at);
}

size_t line_ends(const Cursor& text, size_t at) {
  while (text.byte(at) == '\r' || text.byte(at) == '\n') ++at;
  return at;
}

size_t scan_llama3(const Cursor& text, size_t at, int most_digits) {
  const char c = text.byte(at);
  if (c == '\'') {
    const size_t length = text.contraction(at, true);
    if (length != 0) return at + length;
  }
  const uint8_t found = text.class_at(at);
  if (found == kLetter) return text.skip(at, kLetter);
  if (found == kNumber) {
    for (int i = 0; i < most_digits && text.is(at, kNumber); ++i) at = text.next(at);
    return at;
  }
  const size_t next = text.next(at);
  if (c != '\r' && c != '\n' && text.is(next, kLetter)) return text.skip(next, kLetter);
  if (found == kOther) return line_ends(text, text.skip(at, kOther));
  if (c == ' ' && text.is(next, kOther)) return line_ends(text, text.skip(next, kOther));
  size_t behind_line = 0;  // \s*[\r\n]+ : up to the last end of a line in the run
  for (size_t i = at; text.is(i, kSpace); i = text.next(i)) {
    if (text.byte(i) == '\r' || text.byte(i) == '\n') behind_line = i + 1;
  }
  return behind_line != 0 ? behind_line : text.blanks(at);
}

}  // namespace

Scanner scanner_of(const std::string& expression) {
  if (expression == kGpt2) return Scanner::gpt2;
  if (expression == kLlama3) return Scanner::llama3;
  if (expression == kQwen2) return Scanner::qwen2;
  return Scanner::none;
}

const char* scanner_expression(Scanner scanner) {
  switch (scanner) {
    case Scanner::gpt2: return kGpt2;
    case Scanner::llama3: return kLlama3;
    case Scanner::qwen2: return kQwen2;
    case Scanner::none: break;
  }
  return "";
}

size_t scan_piece(Scanner scanner, std::string_view text, size_t at) {
  const Cursor cursor(text);
  switch (scanner) {
    case Scanner::gpt2: return scan_gpt2(cursor, at);
    case Scanner::llama3: return scan_llama3(cursor, at, 3);
    case Scanner::qwen2: return scan_llama3(cursor, at, 1);
    case Scanner::none: break;
  }
  ESPALIER_REQUIRE(false, "scan_piece without a scanner");
  return text.size();
}

}  // namespace espalier
