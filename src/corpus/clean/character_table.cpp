// SPDX-License-Identifier: Apache-2.0
// The table from ICU, and the pass over a text with a wide path for ASCII.
#include "corpus/clean/character_table.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <cstring>

namespace espalier {
namespace {

constexpr UChar32 kZeroWidthNonJoiner = 0x200C, kZeroWidthJoiner = 0x200D, kByteOrderMark = 0xFEFF;

bool is_quick(UChar32 c, UProperty check) {
  return u_getIntPropertyValue(c, check) == UNORM_YES;
}

uint16_t describe(UChar32 c, UCharCategory category) {
  const uint32_t mask = U_MASK(category);
  const bool blank = u_isUWhiteSpace(c) != 0;
  UErrorCode code = U_ZERO_ERROR;
  auto entry = static_cast<uint16_t>(uscript_getScript(c, &code) & kScriptMask);
  if ((mask & U_GC_L_MASK) != 0) entry |= kLetter;
  if ((mask & (U_GC_L_MASK | U_GC_M_MASK | U_GC_N_MASK)) != 0 || blank ||
      c == kZeroWidthNonJoiner || c == kZeroWidthJoiner) {
    entry |= kNoSymbol;
  }
  if (c == kByteOrderMark || (category == U_CONTROL_CHAR && c != '\t' && c != '\n')) {
    entry |= kControl;
  }
  if (blank) entry |= kBlank;
  // A mark may have to change places with its neighbours, however quick its own answer.
  const bool moves = u_getCombiningClass(c) != 0;
  if (moves || !is_quick(c, UCHAR_NFC_QUICK_CHECK)) entry |= kNotNfc;
  if (moves || !is_quick(c, UCHAR_NFKC_QUICK_CHECK)) entry |= kNotNfkc;
  return entry;
}

UBool fill_range(const void* context, UChar32 start, UChar32 limit, UCharCategory category) {
  auto& table = **static_cast<std::vector<uint16_t>* const*>(context);
  // Unassigned, private and surrogate code points have no property but "symbol, script Unknown".
  const bool is_plain =
      category == U_UNASSIGNED || category == U_PRIVATE_USE_CHAR || category == U_SURROGATE;
  for (UChar32 c = start; c < limit; ++c) {
    table[static_cast<size_t>(c)] =
        is_plain ? static_cast<uint16_t>(USCRIPT_UNKNOWN) : describe(c, category);
  }
  return true;
}

constexpr size_t kBlock = 64;  // bytes; eight-bit sums of one block cannot overflow

bool is_ascii_block(const unsigned char* p) {
  uint64_t words[kBlock / 8], all = 0;
  std::memcpy(words, p, kBlock);
  for (const uint64_t word : words) all |= word;
  return (all & 0x8080808080808080ull) == 0;
}

struct AsciiCounts {
  int64_t blocks = 0, letters = 0, known = 0, controls = 0, blanks = 0;
};

constexpr bool is_between(unsigned char c, unsigned char first, unsigned char last) {
  return static_cast<unsigned char>(c - first) <= last - first;
}

// A loop that the compiler turns into vector code: eight-bit sums, no branch, no table.
template <class Test>
uint8_t count_in_block(const unsigned char* p, Test test) {
  uint8_t count = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const uint8_t one = test(p[i]) ? 1 : 0;
    count = static_cast<uint8_t>(count + one);
  }
  return count;
}

void count_ascii_block(const unsigned char* p, AsciiCounts& counts) {
  const uint8_t letters = count_in_block(p, [](unsigned char c) {
    return is_between(static_cast<unsigned char>(c | 0x20), 'a', 'z');
  });
  const uint8_t digits = count_in_block(p, [](unsigned char c) { return is_between(c, '0', '9'); });
  const uint8_t spaces = count_in_block(p, [](unsigned char c) { return c == ' '; });
  const uint8_t breaks = count_in_block(p, [](unsigned char c) { return is_between(c, 9, 13); });
  const uint8_t plain = count_in_block(p, [](unsigned char c) { return is_between(c, 32, 126); });
  const uint8_t kept = count_in_block(p, [](unsigned char c) { return is_between(c, 9, 10); });
  const int64_t blanks = spaces + breaks;
  ++counts.blocks;
  counts.letters += letters;
  counts.known += letters + digits + blanks;
  counts.controls += static_cast<int64_t>(kBlock) - plain - kept;
  counts.blanks += blanks;
}

void add_ascii(const AsciiCounts& counts, const ScriptSet& scripts, TextScan& scan) {
  const auto bytes = counts.blocks * static_cast<int64_t>(kBlock);
  scan.characters += bytes;
  scan.symbols += bytes - counts.known;
  scan.letters += counts.letters;
  scan.script_letters += scripts[USCRIPT_LATIN] != 0 ? counts.letters : 0;
  if (counts.letters > 0) scan.flags |= kLetter;
  if (counts.known > 0) scan.flags |= kNoSymbol;
  if (counts.controls > 0) scan.flags |= kControl;
  if (counts.blanks > 0) scan.flags |= kBlank;
}

}  // namespace

const std::vector<uint16_t>& character_table() {
  static const std::vector<uint16_t> table = [] {
    std::vector<uint16_t> made(0x110000);
    std::vector<uint16_t>* const context = &made;
    u_enumCharTypes(fill_range, &context);
    return made;
  }();
  return table;
}

TextScan scan_text(std::string_view text, const ScriptSet& scripts) {
  const uint16_t* const table = character_table().data();
  const auto* const p = reinterpret_cast<const unsigned char*>(text.data());
  // Letters of these two belong to every language or to none, so they do not count.
  ScriptSet counted;
  counted.fill(1);
  counted[USCRIPT_COMMON] = counted[USCRIPT_INHERITED] = 0;
  const auto size = static_cast<int64_t>(text.size());
  TextScan scan;
  AsciiCounts ascii;
  uint16_t flags = 0;
  int64_t at = 0, plain = 0;
  while (at < size) {
    // The block is worth a look only where the last character was ASCII.
    while (plain != 0 && at + static_cast<int64_t>(kBlock) <= size && is_ascii_block(p + at)) {
      count_ascii_block(p + at, ascii);
      at += static_cast<int64_t>(kBlock);
    }
    const int64_t end =
        at + static_cast<int64_t>(kBlock) < size ? at + static_cast<int64_t>(kBlock) : size;
    while (at < end) {
      UChar32 c;
      U8_NEXT(p, at, size, c);
      plain = c >= 0 && c < 0x80 ? 1 : 0;
      const uint16_t entry = c >= 0 ? table[c] : kBroken;
      flags |= entry;
      ++scan.characters;
      scan.symbols += (entry & kNoSymbol) == 0 ? 1 : 0;
      const int64_t letter = (entry & kLetter) != 0 ? counted[entry & kScriptMask] : 0;
      scan.letters += letter;
      scan.script_letters += letter & scripts[entry & kScriptMask];
    }
  }
  scan.flags = flags & static_cast<uint16_t>(~kScriptMask);
  add_ascii(ascii, scripts, scan);
  return scan;
}

}  // namespace espalier
