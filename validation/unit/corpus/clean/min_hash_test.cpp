// SPDX-License-Identifier: Apache-2.0
// Signatures against true sets of shingles; bands against their formula.
#include "corpus/clean/min_hash.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.hpp"
#include "languages.hpp"
#include "near_text.hpp"

namespace espalier {
namespace {

using testing::true_similarity;
using testing::words_text;

Signature sign(const std::string& text, int64_t shingle = 8) {
  Signature signature;
  MinHash(shingle).sign(text, signature);
  return signature;
}

TEST(MinHash, BandsAreTheMostSelectiveThatFindEnough) {
  EXPECT_EQ(choose_bands(0.8).rows, 7);
  EXPECT_EQ(choose_bands(0.8).bands, 18);
  EXPECT_EQ(choose_bands(1.0).rows, 128);
  int64_t before = 1;
  for (double s = 0.024; s <= 1.0; s += 0.004) {
    const BandChoice choice = choose_bands(s);
    EXPECT_GE(choice.chance(s), kLeastChance);
    EXPECT_LE(choice.bands * choice.rows, kSignatureValues);
    EXPECT_GE(choice.rows, before) << "a higher similarity needs no more comparisons";
    before = choice.rows;
    if (choice.rows < kSignatureValues) {
      const BandChoice next{kSignatureValues / (choice.rows + 1), choice.rows + 1};
      EXPECT_LT(next.chance(s), kLeastChance);
    }
  }
  for (const double s : {0.0, 0.02, 1.01, -1.0, std::nan("")})
    EXPECT_THROW(choose_bands(s), DeckError);
}

TEST(MinHash, EstimateIsUnbiasedAndAsSharpAsItsFormula) {
  for (const int64_t words : {6, 40, 400}) {
    for (const double edits : {0.005, 0.03, 0.1, 0.3}) {
      double error = 0.0, square = 0.0, expected = 0.0;
      constexpr int kPairs = 150;
      for (uint64_t seed = 0; seed < kPairs; ++seed) {
        const std::string a = words_text(seed, words), b = words_text(seed, words, edits);
        const double truth = true_similarity(a, b, 8);
        const double d = estimate_similarity(sign(a), sign(b)) - truth;
        error += d;
        square += d * d;
        expected += truth * (1.0 - truth) / kSignatureValues;
      }
      const double deviation = std::sqrt(expected / kPairs);
      // Four deviations of the mean; bins left empty in both make up to 2.5 times fewer values.
      EXPECT_LT(std::abs(error / kPairs), 4.0 * 1.6 * deviation / std::sqrt(kPairs) + 1e-4)
          << words << " words, edits " << edits;
      EXPECT_LT(std::sqrt(square / kPairs), 1.6 * deviation + 1e-3)
          << words << " words, edits " << edits;
    }
  }
}

TEST(MinHash, UnlikeTextsAreUnlike) {
  for (uint64_t seed = 0; seed < 100; ++seed)
    EXPECT_LT(estimate_similarity(sign(words_text(seed, 200)), sign(words_text(seed + 1000, 200))),
              0.05);
}

TEST(MinHash, CaseAndBlanksDoNotCount) {
  const Signature plain = sign("the tree grows flat against the wall");
  EXPECT_EQ(plain, sign("  The TREE\tgrows \n\n flat\u00A0against\u3000the Wall \n"));
  EXPECT_NE(plain, sign("the tree grows flat against the well"));
  EXPECT_NE(plain, sign("the treegrows flat against the wall"));
  EXPECT_EQ(sign("САДОВНИК ΚΗΠΟΥΡΟΣ ÄSTE"), sign("садовник κηπουροσ äste"));
}

TEST(MinHash, ShortAndBrokenTexts) {
  Signature signature;
  MinHash hash(8);
  for (const char* text : {"", "       ", "1234567", " 1234567 ", "中文字符中文字"}) {
    EXPECT_FALSE(hash.sign(text, signature)) << text;
    EXPECT_EQ(signature, Signature{}) << text;
  }
  EXPECT_TRUE(hash.sign("12345678", signature));
  EXPECT_TRUE(hash.sign("中文字符中文字符", signature));
  EXPECT_TRUE(hash.sign("\xFF\xFE\xFF\xFE\xFF\xFE\xFF\xFE", signature));
  EXPECT_NE(sign("\xFF\xFE\xFF\xFE\xFF\xFE\xFF\xFE"), sign("\xFE\xFE\xFF\xFE\xFF\xFE\xFF\xFE"));
  // One value in one bin: the estimate knows only equal and different.
  EXPECT_EQ(estimate_similarity(sign("12345678"), sign("12345678")), 1.0);
  EXPECT_EQ(estimate_similarity(sign("12345678"), sign("12345679")), 0.0);
  EXPECT_EQ(estimate_similarity(Signature{}, Signature{}), 0.0);
}

// The window rolls on from one chunk of 4,096 characters to the next: the shingles of a text are
// those of its overlapping parts, so the least of a bin is that of one of the parts.
TEST(MinHash, ChunksDoNotShow) {
  const std::string text = [] {
    std::string letters = words_text(5, 4000);
    letters.erase(std::remove(letters.begin(), letters.end(), ' '), letters.end());
    return letters;
  }();
  for (const size_t k : {size_t{1}, size_t{3}, size_t{8}, size_t{4100}}) {
    for (const size_t size : {size_t{4095}, size_t{4096}, size_t{4097}, size_t{12000}}) {
      if (size < k) continue;
      const auto shingle = static_cast<int64_t>(k);
      const Signature whole = sign(text.substr(0, size), shingle);
      std::array<bool, kSignatureValues> found{};
      const size_t step = k > 4000 ? 1000 : 500;
      for (size_t begin = 0; begin + k <= size; begin += step) {
        const Signature part =
            sign(text.substr(begin, std::min(step + k - 1, size - begin)), shingle);
        for (size_t i = 0; i < whole.size(); ++i) found[i] = found[i] || part[i] == whole[i];
      }
      EXPECT_EQ(std::count(found.begin(), found.end(), true), kSignatureValues) << k << " " << size;
    }
  }
}

TEST(MinHash, LikePairsShareABandAsOftenAsTheFormulaSays) {
  const BandChoice choice = choose_bands(0.8);
  for (const int64_t words : {15, 300}) {
    for (const double edits : {0.02, 0.055, 0.15}) {
      int64_t shared = 0;
      double expected = 0.0;
      constexpr int kPairs = 400;
      for (uint64_t seed = 0; seed < kPairs; ++seed) {
        const std::string a = words_text(seed, words), b = words_text(seed, words, edits);
        std::vector<uint64_t> x, y;
        band_keys(sign(a), choice, x);
        band_keys(sign(b), choice, y);
        bool any = false;
        for (size_t i = 0; i < x.size(); ++i) any = any || x[i] == y[i];
        shared += any ? 1 : 0;
        expected += choice.chance(true_similarity(a, b, 8));
      }
      const double share = static_cast<double>(shared) / kPairs;
      EXPECT_NEAR(share, expected / kPairs, 0.07) << words << " words, edits " << edits;
    }
  }
}

TEST(MinHash, EveryLanguageFindsItsEditedCopy) {
  for (const auto& sample : testing::language_samples()) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += sample.text + std::to_string(i * 7919);
    const std::string copy = "New title. " + text + " The end.";
    EXPECT_GT(estimate_similarity(sign(text), sign(copy)), 0.85) << sample.tag;
    EXPECT_LT(estimate_similarity(sign(text), sign(words_text(3, 400))), 0.05) << sample.tag;
  }
}

}  // namespace
}  // namespace espalier
