// SPDX-License-Identifier: Apache-2.0
// Scripts by ICU, and the other scripts in use of languages for which ICU names one.
#include "corpus/clean/language_scripts.hpp"

#include <unicode/uloc.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace espalier {
namespace {

struct OtherScripts {
  const char* language;
  UScriptCode scripts[3];  // ended by USCRIPT_COMMON
};

constexpr OtherScripts kOtherScripts[] = {
    {"az", {USCRIPT_CYRILLIC, USCRIPT_ARABIC}},
    {"bs", {USCRIPT_CYRILLIC}},
    {"ha", {USCRIPT_ARABIC}},
    {"kk", {USCRIPT_LATIN, USCRIPT_ARABIC}},
    {"ks", {USCRIPT_DEVANAGARI}},
    {"ku", {USCRIPT_ARABIC}},
    {"mn", {USCRIPT_MONGOLIAN}},
    {"ms", {USCRIPT_ARABIC}},
    {"pa", {USCRIPT_ARABIC}},
    {"sd", {USCRIPT_DEVANAGARI}},
    {"sh", {USCRIPT_LATIN, USCRIPT_CYRILLIC}},
    {"sr", {USCRIPT_LATIN}},
    {"tk", {USCRIPT_CYRILLIC}},
    {"tt", {USCRIPT_LATIN}},
    {"uz", {USCRIPT_CYRILLIC}},
    {"zh", {USCRIPT_BOPOMOFO}},
};

// The part of the tag that `get` (uloc_getLanguage, uloc_getScript) reads.
template <class Get>
std::string part_of(const std::string& tag, Get get) {
  char part[ULOC_FULLNAME_CAPACITY] = "";
  UErrorCode code = U_ZERO_ERROR;
  get(tag.c_str(), part, static_cast<int32_t>(sizeof(part)), &code);
  return U_SUCCESS(code) ? part : "";
}

}  // namespace

int scripts_of_language(const std::string& tag, ScriptSet& scripts) {
  scripts.fill(0);
  const std::string language = part_of(tag, uloc_getLanguage);
  if (language.empty()) return 0;  // ICU would guess English
  UScriptCode found[16];
  UErrorCode code = U_ZERO_ERROR;
  const int32_t count = uscript_getCode(tag.c_str(), found, std::size(found), &code);
  if (U_SUCCESS(code)) {
    for (int32_t i = 0; i < count; ++i) scripts[static_cast<size_t>(found[i])] = 1;
  }
  if (part_of(tag, uloc_getScript).empty()) {
    for (const OtherScripts& row : kOtherScripts) {
      if (language != row.language) continue;
      for (const UScriptCode script : row.scripts) scripts[script] |= script != USCRIPT_COMMON;
    }
  }
  return static_cast<int>(std::count(scripts.begin(), scripts.end(), 1));
}

}  // namespace espalier
