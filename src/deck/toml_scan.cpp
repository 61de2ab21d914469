// SPDX-License-Identifier: Apache-2.0
// Knows just so much of TOML as to tell strings and comments from the rest.
#include "deck/toml_scan.hpp"

namespace espalier {
namespace {

class Scanner {
 public:
  explicit Scanner(const std::string& text) : text_(text) {
    if (starts("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark is allowed, and has no column
  }

  /// Whether it stopped at a foreign character; place() tells where.
  bool find() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (is_foreign()) return true;
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (starts("\"\"\"") || starts("'''")) {
        if (find_in_long_string(c)) return true;
      } else if (c == '"' || c == '\'') {
        skip_string(c);
      } else {
        step();
      }
    }
    return false;
  }

  Place place(const std::string& file) const { return {file, line_, column_}; }

 private:
  bool starts(const char* word) const { return text_.compare(at_, 3, word) == 0; }
  bool is_foreign() const {
    return at_ < text_.size() && static_cast<unsigned char>(text_[at_]) >= 0x80;
  }
  bool is_one_of(const char* set) const {
    return at_ < text_.size() && std::string(set).find(text_[at_]) != std::string::npos;
  }

  void step() {
    if (at_ == text_.size()) return;
    if (text_[at_] == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(text_[at_]) & 0xC0) != 0x80) {
      ++column_;  // characters, not bytes
    }
    ++at_;
  }

  void skip_string(char quote) {
    step();
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (quote == '"' && text_[at_] == '\\') step();
      step();
    }
    if (at_ < text_.size() && text_[at_] == quote) step();
  }

  bool find_in_long_string(char quote) {
    const std::string end(3, quote);
    for (int i = 0; i < 3; ++i) step();
    while (at_ < text_.size() && !starts(end.c_str())) {
      const bool is_escape = quote == '"' && text_[at_] == '\\';
      step();
      if (!is_escape) continue;
      if (!is_one_of(" \t\r\n")) {
        step();
        continue;
      }
      while (is_one_of(" \t\r\n")) step();
      if (is_foreign()) return true;
    }
    // Up to two quotes before the closing three belong to the text.
    for (int i = 0; i < 5 && is_one_of(end.c_str()); ++i) step();
    return false;
  }

  const std::string& text_;
  size_t at_ = 0;
  int line_ = 1;
  int column_ = 1;
};

}  // namespace

std::optional<Place> find_foreign_character(const std::string& text, const std::string& file) {
  Scanner scanner(text);
  if (!scanner.find()) return std::nullopt;
  return scanner.place(file);
}

}  // namespace espalier
