// SPDX-License-Identifier: Apache-2.0
// Escapes are looked at one by one; nothing else of JSON matters here.
#include "corpus/source/json_repair.hpp"

#include <algorithm>

#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kEscapeBytes = 6;  // \uXXXX

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The number of the escape \uXXXX that begins at `at`, or -1.
int escaped_unit(const std::string& json, size_t at) {
  if (at + kEscapeBytes > json.size() || json[at] != '\\' || json[at + 1] != 'u') return -1;
  int unit = 0;
  for (size_t i = at + 2; i < at + kEscapeBytes; ++i) {
    const int digit = hex_digit(json[i]);
    if (digit < 0) return -1;
    unit = 16 * unit + digit;
  }
  return unit;
}

bool is_high(int unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}

bool is_low(int unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

}  // namespace

int64_t repair_json(std::string_view json, std::string& repaired) {
  int64_t broken = count_broken_utf8(json);
  if (broken == 0) {
    repaired.assign(json);
  } else {
    repaired = printable_text(json);
  }
  for (size_t at = repaired.find('\\'); at != std::string::npos; at = repaired.find('\\', at)) {
    const int unit = escaped_unit(repaired, at);
    if (is_high(unit) && is_low(escaped_unit(repaired, at + kEscapeBytes))) {
      at += 2 * kEscapeBytes;
    } else if (is_high(unit) || is_low(unit)) {
      repaired.replace(at + 2, 4, "fffd");
      ++broken;
      at += kEscapeBytes;
    } else {
      at += 2;  // also past an escaped backslash
    }
  }
  return broken;
}

void blank_numbers(std::string_view json, std::string& blanked) {
  blanked.clear();
  bool in_string = false;
  for (size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (in_string) {
      blanked += c;
      if (c == '\\' && at + 1 < json.size()) blanked += json[++at];
      in_string = c != '"';
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      blanked += '0';
      const size_t end = json.find_first_not_of("0123456789+-.eE", at);
      at = std::min(end, json.size()) - 1;
    } else {
      blanked += c;
      in_string = c == '"';
    }
  }
}

}  // namespace espalier
