// SPDX-License-Identifier: Apache-2.0
// Normalisation against ICU's UTF-16 interface, broken bytes, and the removal of controls.
#include "corpus/clean/normalise.hpp"
#include "corpus/utf8.hpp"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include "../corpus_files.hpp"
#include "corpus/clean/cleaner.hpp"
#include "languages.hpp"

namespace espalier {
namespace {

using testing::language_samples;

std::string through_icu(const std::string& text, const icu::Normalizer2* form) {
  UErrorCode code = U_ZERO_ERROR;
  std::string out;
  form->normalize(icu::UnicodeString::fromUTF8(text), code).toUTF8String(out);
  EXPECT_TRUE(U_SUCCESS(code));
  return out;
}

std::string decomposed(const std::string& text) {
  UErrorCode code = U_ZERO_ERROR;
  return through_icu(text, icu::Normalizer2::getNFDInstance(code));
}

std::string composed(const std::string& text) {
  UErrorCode code = U_ZERO_ERROR;
  return through_icu(text, icu::Normalizer2::getNFCInstance(code));
}

TEST(Normalise, KnownForms) {
  EXPECT_EQ(normalise_text("e\u0301", Normalisation::nfc), "é");
  EXPECT_EQ(normalise_text("e\u0301", Normalisation::none), "e\u0301");
  EXPECT_EQ(normalise_text("\u1112\u1161\u11AB", Normalisation::nfc), "한");
  EXPECT_EQ(normalise_text("q\u0307\u0323", Normalisation::nfc), "q\u0323\u0307");  // order
  EXPECT_EQ(normalise_text("\u212B ﬁ ①", Normalisation::nfc), "Å ﬁ ①");
  EXPECT_EQ(normalise_text("\u212B ﬁ ① ｶﾞ", Normalisation::nfkc), "Å fi 1 ガ");
}

TEST(Normalise, EveryLanguageComesBackFromDecomposition) {
  for (const auto& sample : language_samples()) {
    const std::string normal = composed(sample.text);
    EXPECT_EQ(normalise_text(decomposed(sample.text), Normalisation::nfc), normal) << sample.tag;
    EXPECT_EQ(normalise_text(normal, Normalisation::nfc), normal) << sample.tag;
  }
}

TEST(Normalise, BrokenBytesStayAndSoundStretchesAreNormalised) {
  EXPECT_EQ(normalise_text("e\u0301\xFF"
                           "e\u0301\xE4\xB8",
                           Normalisation::nfc),
            "é\xFF"
            "é\xE4\xB8");
  EXPECT_EQ(normalise_text("e\xFF\u0301", Normalisation::nfc), "e\xFF\u0301") << "not joined";
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 50; ++i) text += static_cast<char>(random_bits(seed, 3, i));
    const std::string once = normalise_text(text, Normalisation::nfc);
    EXPECT_EQ(normalise_text(once, Normalisation::nfc), once) << seed;
    // ICU's replacement characters stand where the broken bytes do.
    EXPECT_EQ(composed(once), composed(text)) << seed;
  }
}

TEST(Normalise, LongTextIsCutOnlyWhereNothingJoins) {
  // Letters with marks in all phases around the cuts at whole MiB.
  std::string text;
  for (uint64_t i = 0; text.size() < (size_t{5} << 19); ++i) {
    text += static_cast<char>('a' + i % 26);
    for (uint64_t j = 0; j < random_bits(1, 4, i) % 4; ++j)
      text += random_bits(2, 5 + j, i) % 2 == 0 ? "\u0301" : "\u0323";
  }
  EXPECT_TRUE(normalise_text(text, Normalisation::nfc) == composed(text));
  const std::string marks = [] {
    std::string m;
    for (int i = 0; i < 700000; ++i) m += "\u0301";
    return m;
  }();
  // No text of any language, but no reason to end a build.
  const std::string normal = normalise_text(marks, Normalisation::nfc);
  EXPECT_EQ(normal.size(), marks.size());
  EXPECT_EQ(count_broken_utf8(normal), 0) << "cut inside a character";
}

TEST(Normalise, RemovesControlsAndKeepsWhatCarriesMeaning) {
  const struct {
    std::string given, left;
  } cases[] = {{"a\r\nb\rc\n\rd\r\r\n", "a\nb\nc\n\nd\n\n"},
               {"\r", "\n"},
               {std::string("a\0b\x07\x1B[0m\x7F\tc", 11), "ab[0m\tc"},
               {"\uFEFFx\u0085y\u009F", "xy"},
               {"👩\u200D💻 می\u200Cخواهم ✈\uFE0F \u200E\u202Aab\u202C \u200B",
                "👩\u200D💻 می\u200Cخواهم ✈\uFE0F \u200E\u202Aab\u202C \u200B"},
               {"\xFF\x01\xE4\xB8\x02\xC2", "\xFF\xE4\xB8\xC2"},
               {"", ""}};
  for (const auto& c : cases) {
    std::string text = c.given;
    remove_control(text);
    EXPECT_EQ(text, c.left);
    remove_control(text);
    EXPECT_EQ(text, c.left);
  }
}

TEST(Normalise, RemovedControlsLeaveNormalText) {
  CleanConfig config;
  config.normalise = Normalisation::nfc;
  config.remove_control = true;
  CleanCounts counts;
  std::string text = "o\u0308 e\x01\u0301";
  EXPECT_TRUE(Cleaner(config, {}).clean(text, counts));
  EXPECT_EQ(text, "ö é");
  EXPECT_EQ(counts.of(CleanStep::normalise).changed, 1);
  EXPECT_EQ(counts.of(CleanStep::remove_control).changed, 1);
}

TEST(Normalise, OnlyChangedDocumentsCount) {
  CleanConfig config;
  config.normalise = Normalisation::nfc;
  config.remove_control = true;
  Cleaner cleaner(config, {});
  CleanCounts counts;
  for (const std::string given : {"plain ASCII", "schön", "ก่ ที่", "scho\u0308n", "a\r\nb", ""}) {
    std::string text = given;
    EXPECT_TRUE(cleaner.clean(text, counts));
    EXPECT_TRUE(text == given || given == "scho\u0308n" || given == "a\r\nb") << given;
  }
  EXPECT_EQ(counts.of(CleanStep::normalise).changed, 1);
  EXPECT_EQ(counts.of(CleanStep::remove_control).changed, 1);
  EXPECT_EQ(counts.of(CleanStep::normalise).dropped, 0);
}

}  // namespace
}  // namespace espalier
