// SPDX-License-Identifier: Apache-2.0
// Normalisation by ICU, stretch by stretch, and the removal of control characters in place.
#include "corpus/clean/normalise.hpp"

#include <simdjson.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/utf8.h>

#include "core/error.hpp"
#include "corpus/clean/character_table.hpp"

namespace espalier {
namespace {

// ICU counts bytes in 32 bits; a smaller stretch also keeps its work in the cache.
constexpr int64_t kStretch = int64_t{1} << 20;

const icu::Normalizer2& normalizer_of(Normalisation form) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* found = form == Normalisation::nfc
                                      ? icu::Normalizer2::getNFCInstance(code)
                                      : icu::Normalizer2::getNFKCInstance(code);
  if (U_FAILURE(code))
    throw DataError(fmt::format("ICU has no data for normalisation ({}); install its data package",
                                u_errorName(code)));
  return *found;
}

/// Last place in (begin, limit] where sound text may be cut without changing its normal form; near
/// limit if all between are combining marks.
int64_t find_cut(const icu::Normalizer2& normalizer, const unsigned char* p, int64_t begin,
                 int64_t limit, int64_t size) {
  if (limit >= size) return size;
  for (int64_t at = limit; at > begin; --at) {
    while (at > begin && U8_IS_TRAIL(p[at])) --at;
    int64_t next = at;
    UChar32 c;
    U8_NEXT(p, next, size, c);
    if (at > begin && normalizer.hasBoundaryBefore(c)) return at;
  }
  // A stretch of marks alone is no text of any language: it is cut all the same.
  int64_t at = limit;
  while (U8_IS_TRAIL(p[at])) --at;
  return at;
}

void append_normal(const icu::Normalizer2& normalizer, std::string_view sound, std::string& out) {
  const auto* const p = reinterpret_cast<const unsigned char*>(sound.data());
  const auto size = static_cast<int64_t>(sound.size());
  icu::StringByteSink<std::string> sink(&out);
  for (int64_t at = 0; at < size;) {
    const int64_t end = find_cut(normalizer, p, at, at + kStretch, size);
    UErrorCode code = U_ZERO_ERROR;
    normalizer.normalizeUTF8(0, icu::StringPiece(sound.data() + at, static_cast<int32_t>(end - at)),
                             sink, nullptr, code);
    ESPALIER_REQUIRE(U_SUCCESS(code), "ICU cannot normalise {} bytes: {}", end - at,
                     u_errorName(code));
    at = end;
  }
}

}  // namespace

std::string normalise_text(std::string_view text, Normalisation form) {
  if (form == Normalisation::none) return std::string(text);
  const icu::Normalizer2& normalizer = normalizer_of(form);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  if (simdjson::validate_utf8(text.data(), text.size())) {
    append_normal(normalizer, text, out);
    return out;
  }
  const auto* const p = reinterpret_cast<const unsigned char*>(text.data());
  const auto size = static_cast<int64_t>(text.size());
  int64_t sound = 0;
  for (int64_t at = 0; at < size;) {
    const int64_t begin = at;
    UChar32 c;
    U8_NEXT(p, at, size, c);
    if (c >= 0) continue;
    append_normal(normalizer, text.substr(sound, begin - sound), out);
    out.append(text.substr(begin, at - begin));
    sound = at;
  }
  append_normal(normalizer, text.substr(sound), out);
  return out;
}

void remove_control(std::string& text) {
  const uint16_t* const table = character_table().data();
  const auto size = static_cast<int64_t>(text.size());
  auto* const p = reinterpret_cast<unsigned char*>(text.data());
  int64_t to = 0;
  for (int64_t at = 0; at < size;) {
    const int64_t begin = at;
    UChar32 c;
    U8_NEXT(p, at, size, c);
    if (c == '\r') {
      if (at < size && p[at] == '\n') continue;  // the line feed follows by itself
      p[to++] = '\n';
    } else if (c < 0 || (table[c] & kControl) == 0) {
      for (int64_t i = begin; i < at; ++i) p[to++] = p[i];
    }
  }
  text.resize(static_cast<size_t>(to));
}

}  // namespace espalier
