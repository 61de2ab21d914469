// SPDX-License-Identifier: Apache-2.0
// Normalisation steps, Unicode's by ICU.
#include "corpus/tokenizer/text_normalizer.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include "core/error.hpp"
#include "corpus/tokenizer/byte_alphabet.hpp"
#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

using Kind = NormalizerStep::Kind;

const icu::Normalizer2* form_of(Kind kind, UErrorCode& error) {
  switch (kind) {
    case Kind::nfc: return icu::Normalizer2::getNFCInstance(error);
    case Kind::nfd: return icu::Normalizer2::getNFDInstance(error);
    case Kind::nfkc: return icu::Normalizer2::getNFKCInstance(error);
    default: return icu::Normalizer2::getNFKDInstance(error);
  }
}

std::string to_form(Kind kind, const std::string& text) {
  UErrorCode error = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  const icu::Normalizer2* form = form_of(kind, error);
  if (U_SUCCESS(error) != 0) {
    form->normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink,
                        nullptr, error);
  }
  if (U_FAILURE(error) != 0) {
    throw DataError(
        fmt::format("Unicode normalisation of {} bytes failed: {}; check the "
                    "installation of ICU",
                    text.size(), u_errorName(error)));
  }
  return out;
}

template <class F>
std::string each_character(const std::string& text, F&& put) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character c = read_character(text.data() + at);
    put(c.code, out);
    at += c.bytes;
  }
  return out;
}

// Character by character, so that the end of a word changes nothing. Only U+0130 becomes two.
std::string lowercase(const std::string& text) {
  return each_character(text, [](char32_t c, std::string& out) {
    append_utf8(c == 0x130 ? U'i' : static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), out);
    if (c == 0x130) append_utf8(0x307, out);
  });
}

std::string strip_accents(const std::string& text) {
  return each_character(text, [](char32_t c, std::string& out) {
    if ((U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK) == 0) append_utf8(c, out);
  });
}

std::string replace(const std::string& text, const NormalizerStep& step) {
  std::vector<Stretch> stretches;
  step.pattern->find(text, stretches);
  std::string out;
  out.reserve(text.size());
  for (const Stretch& s : stretches) {
    out.append(s.match ? step.content : text.substr(s.begin, s.end - s.begin));
  }
  return out;
}

}  // namespace

std::string TextNormalizer::normalise(std::string_view original, bool& first) const {
  std::string text(original);
  for (const NormalizerStep& step : steps_) {
    switch (step.kind) {
      case Kind::lowercase: text = lowercase(text); break;
      case Kind::strip_accents: text = strip_accents(text); break;
      case Kind::strip_left: {
        const size_t gone = leading_space(text);
        first = first && gone == 0;
        text.erase(0, gone);
        break;
      }
      case Kind::strip_right: text.resize(trailing_space_begin(text)); break;
      case Kind::prepend:
        if (!text.empty()) text.insert(0, step.content);
        break;
      case Kind::replace: text = replace(text, step); break;
      case Kind::byte_alphabet: text = to_byte_alphabet(text); break;
      default: text = to_form(step.kind, text);
    }
  }
  return text;
}

}  // namespace espalier
