// SPDX-License-Identifier: Apache-2.0
// Encodings by their names on the web; ICU converts them.
#include "corpus/source/html_encoding.hpp"

#include <unicode/ucnv.h>
#include <unicode/ucnv_cb.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "core/error.hpp"
#include "corpus/source/part_input.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kPrescanBytes = 4096;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// On the web some names mean a larger set than they say (WHATWG Encoding, section 4.2); a page
// that names UTF-16 in ASCII letters cannot be that.
std::string web_encoding(std::string_view name) {
  static constexpr std::array<std::pair<const char*, const char*>, 14> kNames = {{
      {"iso-8859-1", "windows-1252"},
      {"latin1", "windows-1252"},
      {"ascii", "windows-1252"},
      {"us-ascii", "windows-1252"},
      {"iso-8859-9", "windows-1254"},
      {"tis-620", "windows-874"},
      {"gb2312", "gb18030"},
      {"gbk", "gb18030"},
      {"x-gbk", "gb18030"},
      {"shift_jis", "windows-31j"},
      {"x-sjis", "windows-31j"},
      {"euc-kr", "windows-949"},
      {"ks_c_5601-1987", "windows-949"},
      {"utf8", "utf-8"},
  }};
  std::string lower = lower_case(name);
  for (const auto& [said, meant] : kNames) {
    if (lower == said) return meant;
  }
  return lower;
}

using Converter = std::unique_ptr<UConverter, void (*)(UConverter*)>;

Converter open_converter(const std::string& name) {
  UErrorCode code = U_ZERO_ERROR;
  return {::ucnv_open(web_encoding(name).c_str(), &code), &::ucnv_close};
}

// Each broken sequence and each one without a character becomes U+FFFD and is counted.
void replace_and_count(const void* context, UConverterToUnicodeArgs* args, const char*, int32_t,
                       UConverterCallbackReason reason, UErrorCode* code) {
  if (reason > UCNV_IRREGULAR) return;
  static constexpr UChar kReplacement = 0xFFFD;
  ++*static_cast<int64_t*>(const_cast<void*>(context));
  *code = U_ZERO_ERROR;
  ::ucnv_cbToUWriteUChars(args, &kReplacement, 1, 0, code);
}

// The value behind `name` = in a tag, without quotes; empty if there is none.
std::string attribute(std::string_view tag, std::string_view name) {
  size_t at = tag.find(name);
  if (at == std::string_view::npos) return {};
  at = tag.find_first_not_of(" \t\r\n\f", at + name.size());
  if (at == std::string_view::npos || tag[at] != '=') return {};
  at = tag.find_first_not_of(" \t\r\n\f\"'", at + 1);
  if (at == std::string_view::npos) return {};
  return std::string(tag.substr(at, tag.find_first_of(" \t\r\n\f\"';/>", at) - at));
}

}  // namespace

bool is_known_encoding(const std::string& name) {
  return open_converter(name) != nullptr;
}

std::string declared_encoding(std::string_view page) {
  if (page.substr(0, kByteOrderMark.size()) == kByteOrderMark) return "utf-8";
  if (page.substr(0, 2) == "\xFE\xFF") return "utf-16be";
  if (page.substr(0, 2) == "\xFF\xFE") return "utf-16le";
  const std::string head = lower_case(page.substr(0, kPrescanBytes));
  std::string found;
  if (head.compare(0, 5, "<?xml") == 0) {
    found = attribute(std::string_view(head).substr(0, head.find('>')), "encoding");
  }
  for (size_t at = 0; found.empty();) {
    at = head.find('<', at);
    if (at == std::string::npos) break;
    if (head.compare(at, 4, "<!--") == 0) {
      at = head.find("-->", at + 2);
      if (at == std::string::npos) break;
    } else {
      const size_t end = head.find('>', at);
      if (head.compare(at, 5, "<meta") == 0 && end != std::string::npos) {
        found = attribute(std::string_view(head).substr(at, end - at), "charset");
      }
      ++at;
    }
  }
  return found.compare(0, 6, "utf-16") == 0 ? "utf-8" : found;
}

int64_t decode_page(std::string_view page, const std::string& name, std::string& utf8) {
  if (page.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    page.remove_prefix(kByteOrderMark.size());
  } else if (page.substr(0, 2) == "\xFE\xFF" || page.substr(0, 2) == "\xFF\xFE") {
    page.remove_prefix(2);
  }
  if (web_encoding(name) == "utf-8") {
    const int64_t broken = count_broken_utf8(page);
    if (broken == 0) {
      utf8.assign(page);
    } else {
      utf8 = printable_text(page);
    }
    return broken;
  }
  const Converter from = open_converter(name), to = open_converter("utf-8");
  ESPALIER_REQUIRE(from != nullptr && to != nullptr, "encoding {}", name);
  int64_t broken = 0;
  UErrorCode code = U_ZERO_ERROR;
  ::ucnv_setToUCallBack(from.get(), &replace_and_count, &broken, nullptr, nullptr, &code);
  std::array<UChar, 4096> pivot;
  UChar *pivot_begin = pivot.data(), *pivot_end = pivot.data();
  const char* source = page.data();
  size_t size = 0;
  utf8.resize(page.size() + page.size() / 2 + 64);
  for (bool is_first = true;; is_first = false) {
    char* target = utf8.data() + size;
    code = U_ZERO_ERROR;
    ::ucnv_convertEx(to.get(), from.get(), &target, utf8.data() + utf8.size(), &source,
                     page.data() + page.size(), pivot.data(), &pivot_begin, &pivot_end,
                     pivot.data() + pivot.size(), is_first, true, &code);
    size = static_cast<size_t>(target - utf8.data());
    if (code == U_BUFFER_OVERFLOW_ERROR) {
      utf8.resize(utf8.size() + utf8.size() / 2);
      continue;
    }
    if (code == U_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
    ESPALIER_REQUIRE(U_SUCCESS(code), "{} to UTF-8: {}", name, ::u_errorName(code));
    break;
  }
  utf8.resize(size);
  return broken;
}

}  // namespace espalier
