// SPDX-License-Identifier: Apache-2.0
// The filters of cleaning, their limits and their counts; scripts of languages.
#include "corpus/clean/cleaner.hpp"

#include <gtest/gtest.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>

#include <nlohmann/json.hpp>

#include "../corpus_files.hpp"
#include "corpus/clean/character_table.hpp"
#include "corpus/clean/language_scripts.hpp"
#include "languages.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::language_samples;

struct Outcome {
  bool kept;
  std::string text;
  CleanCounts counts;
};

Outcome clean(const CleanConfig& config, std::string text, const std::string& language = "") {
  SourceConfig source;
  source.name = "books";
  source.language = language;
  Outcome outcome{false, std::move(text), {}};
  outcome.kept = Cleaner(config, source).clean(outcome.text, outcome.counts);
  return outcome;
}

bool keeps(const CleanConfig& config, const std::string& text, const std::string& language = "") {
  return clean(config, text, language).kept;
}

ScriptSet scripts_of(const std::string& tag) {
  ScriptSet scripts;
  scripts_of_language(tag, scripts);
  return scripts;
}

// The same counts by ICU's UTF-16 strings, a character at a time.
TextScan scan_slowly(const std::string& text, const ScriptSet& scripts) {
  const icu::UnicodeString wide = icu::UnicodeString::fromUTF8(text);
  TextScan scan;
  for (int32_t at = 0; at < wide.length(); at = wide.moveIndex32(at, 1)) {
    const UChar32 c = wide.char32At(at);
    UErrorCode code = U_ZERO_ERROR;
    const auto script = static_cast<size_t>(uscript_getScript(c, &code));
    const bool letter = u_isalpha(c) != 0;
    const uint32_t category = U_GET_GC_MASK(c);
    ++scan.characters;
    if (!letter && (category & (U_GC_M_MASK | U_GC_N_MASK)) == 0 && u_isUWhiteSpace(c) == 0 &&
        c != 0x200C && c != 0x200D)
      ++scan.symbols;
    if (!letter || script == USCRIPT_COMMON || script == USCRIPT_INHERITED) continue;
    ++scan.letters;
    if (scripts[script] != 0) ++scan.script_letters;
  }
  return scan;
}

void expect_same_scan(const std::string& text, const ScriptSet& scripts) {
  const TextScan fast = scan_text(text, scripts), slow = scan_slowly(text, scripts);
  EXPECT_EQ(fast.characters, slow.characters) << text;
  EXPECT_EQ(fast.symbols, slow.symbols) << text;
  EXPECT_EQ(fast.letters, slow.letters) << text;
  EXPECT_EQ(fast.script_letters, slow.script_letters) << text;
}

TEST(Cleaner, ScanCountsAsIcuDoesCharacterByCharacter) {
  const char* const parts[] = {"a",    "Z",    "7", " ", "\n",     "\t",     "!",      "~",
                               "\x01", "\x7F", "é", "я", "中",     "か",     "ー",     "한",
                               "ا",    "ि",    "ก", "😀", "\u0301", "\u200D", "\u00A0", "\uFEFF",
                               "½",    "€",    "𝔘", "[", "@",      "`"};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 40; ++i) {
      const uint64_t bits = random_bits(seed, 1, i);
      text += parts[bits % std::size(parts)];
      // Runs of ASCII of all lengths around a block of 64.
      if (bits >> 60 == 0) {
        for (uint64_t j = 0; j < (bits >> 32) % 200; ++j)
          text += static_cast<char>(random_bits(seed, 2 + i, j) % 128);
      }
    }
    expect_same_scan(text, scripts_of("ja"));
    expect_same_scan(text, scripts_of("en"));
  }
  for (const auto& sample : language_samples()) expect_same_scan(sample.text, scripts_of("sr"));
}

TEST(Cleaner, BrokenSequenceIsOneSymbol) {
  const TextScan scan = scan_text("a\xE4\xB8z\xFF", scripts_of("en"));
  EXPECT_EQ(scan.characters, 4);
  EXPECT_EQ(scan.symbols, 2);
  EXPECT_EQ(scan.letters, 2);
  EXPECT_NE(scan.flags & kBroken, 0);
}

TEST(Cleaner, LengthCountsCodePointsAndLimitsAreInclusive) {
  CleanConfig config;
  config.min_characters = 5;
  EXPECT_TRUE(keeps(config, "héllö"));
  EXPECT_FALSE(keeps(config, "héll"));
  EXPECT_FALSE(keeps(config, "中文字符"));  // twelve bytes
  config = {};
  config.max_characters = 4;
  EXPECT_TRUE(keeps(config, "中文字符"));
  EXPECT_FALSE(keeps(config, "abcde"));
  EXPECT_TRUE(keeps({}, ""));
}

TEST(Cleaner, SymbolRatioSparesEveryScript) {
  CleanConfig config;
  config.max_symbol_ratio = 0.5;
  EXPECT_TRUE(keeps(config, "ab!!"));
  EXPECT_FALSE(keeps(config, "ab!!!"));
  EXPECT_TRUE(keeps(config, ""));
  config.max_symbol_ratio = 0.15;
  for (const auto& sample : language_samples())
    EXPECT_TRUE(keeps(config, sample.text)) << sample.tag;
  config.max_symbol_ratio = 0.0;
  EXPECT_TRUE(keeps(config, "می\u200Cخواهم १२ Ⅳ \u3000"));  // joiner, digits, wide blank
}

TEST(Cleaner, RepeatedLinesCountThoseThatStoodBefore) {
  CleanConfig config;
  config.max_repeated_lines = 0.5;
  EXPECT_TRUE(keeps(config, "a\nb\na\nb\n"));           // two of four
  EXPECT_FALSE(keeps(config, "a\nb\na\nb\na"));         // three of five
  EXPECT_FALSE(keeps(config, "a\n\n\n  a \r\n\ta\n"));  // blank lines do not count, nor blanks
  EXPECT_TRUE(keeps(config, "\n\n\n\n"));
  EXPECT_TRUE(keeps(config, "one\ntwo\nthree"));
  config.max_repeated_lines = 0.0;
  EXPECT_FALSE(keeps(config, "x\ny\nx"));
}

TEST(Cleaner, ScriptShareKnowsTwelveLanguages) {
  CleanConfig config;
  config.min_script_share = 0.95;
  for (const auto& sample : language_samples()) {
    EXPECT_TRUE(keeps(config, sample.text, sample.tag)) << sample.tag;
    EXPECT_FALSE(keeps(config, sample.text, "hy")) << sample.tag;  // Armenian
    EXPECT_TRUE(keeps(config, sample.text)) << "no language, no judgement";
  }
  EXPECT_TRUE(keeps(config, "12:30 — 😀", "ru")) << "no letters";
  config.min_script_share = 0.5;
  EXPECT_TRUE(keeps(config, "abвг", "ru"));
  EXPECT_FALSE(keeps(config, "abcвг", "ru"));
}

TEST(Cleaner, ScriptsOfTags) {
  ScriptSet s;
  EXPECT_EQ(scripts_of_language("ja", s), 3);
  EXPECT_TRUE(s[USCRIPT_HIRAGANA] && s[USCRIPT_KATAKANA] && s[USCRIPT_HAN]);
  EXPECT_EQ(scripts_of_language("sr", s), 2);
  EXPECT_TRUE(s[USCRIPT_CYRILLIC] && s[USCRIPT_LATIN]);
  EXPECT_EQ(scripts_of_language("sr-Latn", s), 1);
  EXPECT_TRUE(s[USCRIPT_LATIN]);
  scripts_of_language("zh-Hans", s);
  EXPECT_TRUE(s[USCRIPT_HAN]);
  EXPECT_EQ(scripts_of_language("xx", s), 0);
  EXPECT_EQ(scripts_of_language("", s), 0);
  EXPECT_EQ(scripts_of_language("xx-Grek", s), 1);
  EXPECT_TRUE(s[USCRIPT_GREEK]);
}

TEST(Cleaner, UnknownLanguageIsRefusedAndMissingOneIsTold) {
  CleanConfig config;
  SourceConfig source;
  source.name = "forum";
  EXPECT_FALSE(Cleaner::skips_script_share(config, source));
  config.min_script_share = 0.5;
  EXPECT_TRUE(Cleaner::skips_script_share(config, source));
  source.language = "qq";
  EXPECT_FALSE(Cleaner::skips_script_share(config, source));
  try {
    const Cleaner cleaner(config, source);
    FAIL() << "no error";
  } catch (const DeckError& error) {
    const std::string message = error.what();
    EXPECT_CONTAINS(message, "source forum");
    EXPECT_CONTAINS(message, "\"qq\"");
    EXPECT_CONTAINS(message, "leave the language empty");
  }
}

TEST(Cleaner, FirstFilterThatDropsCounts) {
  CleanConfig config;
  config.remove_control = true;
  config.min_characters = 4;
  config.max_symbol_ratio = 0.1;
  const Outcome o = clean(config, "!\x01!\x02!");
  EXPECT_FALSE(o.kept);
  EXPECT_EQ(o.counts.steps[1].changed, 1);
  EXPECT_EQ(o.counts.steps[2].dropped, 1);
  EXPECT_EQ(o.counts.steps[2].dropped_bytes, 3);
  EXPECT_EQ(o.counts.steps[4].dropped, 0);
}

TEST(Cleaner, CountsAddUpAndSurviveJson) {
  CleanCounts a;
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    a.steps[i] = {n + 1, n * 10, n << 40};
  }
  CleanCounts b = CleanCounts::from_json(a.to_json());
  EXPECT_EQ(b.to_json(), a.to_json());
  b.add(a);
  EXPECT_EQ(b.of(CleanStep::script_share).changed, 14);
  EXPECT_EQ(b.of(CleanStep::script_share).dropped_bytes, int64_t{12} << 40);
  nlohmann::json damaged = a.to_json();
  damaged["symbol_ratio"]["dropped"] = -1;
  EXPECT_CONTAINS(data_error([&] { CleanCounts::from_json(damaged); }), "symbol_ratio.dropped");
  damaged.erase("symbol_ratio");
  EXPECT_CONTAINS(data_error([&] { CleanCounts::from_json(damaged); }), "symbol_ratio is missing");
  EXPECT_CONTAINS(data_error([&] { CleanCounts::from_json(3); }), "normalise is missing");
}

}  // namespace
}  // namespace espalier
