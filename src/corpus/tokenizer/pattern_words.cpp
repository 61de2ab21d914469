// SPDX-License-Identifier: Apache-2.0
// Oniguruma's expressions in PCRE2's words: see Pattern.
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include "core/error.hpp"
#include "corpus/tokenizer/pattern.hpp"

namespace espalier {
namespace {

constexpr const char* kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

class Translator {
 public:
  Translator(const std::string& from, const std::string& where) : from_(from), where_(where) {}

  std::string run() {
    while (at_ < from_.size()) {
      const char c = from_[at_];
      if (c == '\\') {
        escape();
      } else if (c == '[') {
        open_class();
      } else if (c == ']' && in_class_) {
        in_class_ = false;
        copy(1);
      } else if (c == '&' && in_class_ && rest(2) == "&&") {
        refuse("&& in a class");
      } else if (c == '(' && !in_class_) {
        check_options();
        copy(1);
      } else {
        copy(1);
      }
    }
    return to_;
  }

 private:
  std::string rest(size_t most) const { return from_.substr(at_, most); }
  void copy(size_t count) {
    to_ += from_.substr(at_, count);
    at_ += count;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(
        fmt::format("{}: pattern {} holds {}, which means something else in this program's "
                    "engine (PCRE2) than in the file's (Oniguruma); rewrite it",
                    where_, from_.substr(0, 80), what));
  }

  void open_class() {
    if (in_class_) refuse("a class in a class");
    in_class_ = true;
    copy(1);
    if (at_ < from_.size() && from_[at_] == '^') copy(1);
    if (at_ < from_.size() && from_[at_] == ']') refuse("a class that begins with ]");
  }

  // (?m) is "dot matches line feeds" there; (?i) and others agree.
  void check_options() {
    if (rest(2) == "(*") refuse("(*");
    if (rest(2) != "(?") return;
    for (size_t i = at_ + 2; i < from_.size(); ++i) {
      const char c = from_[i];
      if (c == 'm') refuse("(?m)");
      if (c == ')' || c == ':' || !((c >= 'a' && c <= 'z') || c == '-')) return;
    }
  }

  void escape() {
    if (at_ + 1 >= from_.size()) refuse("a \\ at its end");
    const char c = from_[at_ + 1];
    switch (c) {
      case 's': return put("\\p{White_Space}");
      case 'S': return put("\\P{White_Space}");
      case 'w': return put(in_class_ ? kWord : fmt::format("[{}]", kWord));
      case 'W':
        if (in_class_) refuse("\\W in a class");
        return put(fmt::format("[^{}]", kWord));
      case 'p':
      case 'P': return property();
      default:
        if (std::string_view("hHbBXKGQECRNOyYMgvVyZ").find(c) != std::string_view::npos) {
          refuse(std::string("\\") + c);
        }
        copy(2);
    }
  }

  void put(const std::string& words) {
    to_ += words;
    at_ += 2;
  }

  // PCRE2 takes the name of a script for its extensions; \p{sc:NAME} is the script alone.
  void property() {
    const size_t end = from_.find('}', at_);
    if (from_.compare(at_ + 2, 1, "{") != 0 || end == std::string::npos) return copy(2);
    std::string name = from_.substr(at_ + 3, end - at_ - 3);
    std::string negation;
    if (!name.empty() && name[0] == '^') {
      negation = "^";
      name.erase(0, 1);
    }
    const bool script = name.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) >= 0;
    to_ += fmt::format("\\{}{{{}{}{}}}", from_[at_ + 1], negation, script ? "sc:" : "", name);
    at_ = end + 1;
  }

  const std::string& from_;
  const std::string& where_;
  std::string to_;
  size_t at_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string translate_expression(const std::string& expression, const std::string& where) {
  return Translator(expression, where).run();
}

}  // namespace espalier
