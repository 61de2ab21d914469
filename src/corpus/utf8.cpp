// SPDX-License-Identifier: Apache-2.0
// UTF-8 checked by table 3-7 of the Unicode Standard.
#include "corpus/utf8.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

namespace espalier {
namespace {

struct Sequence {
  size_t bytes;  // of the character, or of the broken sequence
  bool valid;
};

constexpr bool in_range(unsigned char c, unsigned char low, unsigned char high) {
  return c >= low && c <= high;
}

// The sequence that starts at p; `available` >= 1.
Sequence read_sequence(const unsigned char* p, size_t available) {
  const unsigned char lead = p[0];
  size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // range of the second byte
  if (lead < 0x80) {
    return {1, true};
  } else if (in_range(lead, 0xC2, 0xDF)) {
    length = 2;
  } else if (in_range(lead, 0xE0, 0xEF)) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // no overlong forms
    if (lead == 0xED) high = 0x9F;  // no surrogates
  } else if (in_range(lead, 0xF0, 0xF4)) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // nothing above U+10FFFF
  } else {
    return {1, false};
  }
  if (available < 2 || !in_range(p[1], low, high)) return {1, false};
  for (size_t i = 2; i < length; ++i) {
    if (i >= available || !in_range(p[i], 0x80, 0xBF)) return {i, false};
  }
  return {length, true};
}

// First byte at or after `at` that is not ASCII, or size.
size_t skip_ascii(const unsigned char* p, size_t at, size_t size) {
  for (; at + 8 <= size; at += 8) {
    uint64_t word;
    std::memcpy(&word, p + at, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
  }
  while (at < size && p[at] < 0x80) ++at;
  return at;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

int64_t count_broken_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return 0;
  const unsigned char* p = bytes_of(text);
  int64_t broken = 0;
  size_t at = 0;
  while (at < text.size()) {
    if (p[at] < 0x80) {
      at = skip_ascii(p, at, text.size());
    } else {
      const Sequence s = read_sequence(p + at, text.size() - at);
      broken += s.valid ? 0 : 1;
      at += s.bytes;
    }
  }
  return broken;
}

size_t find_broken_utf8(std::string_view text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return std::string_view::npos;
  const unsigned char* p = bytes_of(text);
  for (size_t at = 0; at < text.size();) {
    at = skip_ascii(p, at, text.size());
    if (at == text.size()) break;
    const Sequence s = read_sequence(p + at, text.size() - at);
    if (!s.valid) return at;
    at += s.bytes;
  }
  return std::string_view::npos;
}

std::string printable_text(std::string_view text) {
  const unsigned char* p = bytes_of(text);
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    if (p[at] < 0x80) {
      const size_t end = skip_ascii(p, at, text.size());
      out.append(text.substr(at, end - at));
      at = end;
    } else {
      const Sequence s = read_sequence(p + at, text.size() - at);
      out.append(s.valid ? text.substr(at, s.bytes) : std::string_view("\xEF\xBF\xBD"));
      at += s.bytes;
    }
  }
  return out;
}

Utf8Run utf8_run(std::string_view text) {
  const unsigned char* p = bytes_of(text);
  const bool valid = read_sequence(p, text.size()).valid;
  size_t at = 0;
  while (at < text.size()) {
    if (valid) at = skip_ascii(p, at, text.size());
    if (at == text.size()) break;
    const Sequence s = read_sequence(p + at, text.size() - at);
    if (s.valid != valid) break;
    at += s.bytes;
  }
  return {at, valid};
}

size_t utf8_boundary(std::string_view text, size_t at) {
  at = std::min(at, text.size());
  const unsigned char* p = bytes_of(text);
  for (size_t back = 1; back <= 3 && back <= at; ++back) {
    const unsigned char c = p[at - back];
    if (in_range(c, 0x80, 0xBF)) continue;
    if (c < 0x80) return at;
    const Sequence s = read_sequence(p + at - back, text.size() - (at - back));
    return s.valid && s.bytes > back ? at - back : at;
  }
  return at;
}

}  // namespace espalier
