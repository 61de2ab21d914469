// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding worked out by hand, against the textbook's loop, and the scanners against
// their expressions.
#include <gtest/gtest.h>

#include <algorithm>

#include "corpus/tokenizer/byte_alphabet.hpp"
#include "corpus/tokenizer/character_classes.hpp"
#include "corpus/tokenizer/pattern.hpp"
#include "corpus/tokenizer/scanners.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::random_text;
using testing::TempFolder;

constexpr const char* kVocab =
    R"({"a":0,"b":1,"c":2,"ab":3,"bc":4,"abc":5,"aa":6,"\u0120":7,"\u0120a":8,"<|endoftext|>":9})";
constexpr const char* kMerges = "#version: 0.2\nb c\na b\na bc\na a\n\xC4\xA0 a\n";

std::unique_ptr<Tokenizer> small_gpt2(const TempFolder& folder, const char* vocab = kVocab,
                                      const char* merges = kMerges) {
  folder.write("vocab.json", vocab);
  folder.write("merges.txt", merges);
  TokenizerConfig config;
  config.kind = TokenizerKind::gpt2;
  config.path = folder.at("");
  return make_tokenizer(config);
}

using Ids = std::vector<int32_t>;

// The merges, best first: (b c) (a b) (a bc) (a a) (blank a).
TEST(Bpe, MergesAsByHand) {
  const TempFolder folder;
  const auto tokenizer = small_gpt2(folder);
  EXPECT_EQ(tokenizer->encode("abc"), Ids({5}));         // b c first: a bc, then a bc: abc
  EXPECT_EQ(tokenizer->encode("abab"), Ids({3, 3}));     // ab a b, ab ab
  EXPECT_EQ(tokenizer->encode("aaab"), Ids({6, 3}));     // a b before a a: a a ab, aa ab
  EXPECT_EQ(tokenizer->encode("aaa"), Ids({6, 0}));      // of equals the left one
  EXPECT_EQ(tokenizer->encode("abcbc"), Ids({5, 4}));    // a bc bc, abc bc
  EXPECT_EQ(tokenizer->encode("a a"), Ids({0, 8}));      // words "a" and " a": blank a merges
  EXPECT_EQ(tokenizer->encode(" abc"), Ids({7, 5}));     // (a bc) comes before (blank a)
  EXPECT_EQ(tokenizer->encode("b  a"), Ids({1, 7, 8}));  // words "b", " ", " a"
  EXPECT_EQ(tokenizer->encode("axb"), Ids({3}));         // x is left out: there is no unknown token
  EXPECT_FALSE(tokenizer->is_lossless());
  EXPECT_EQ(tokenizer->end_of_document(), 9);
  EXPECT_EQ(tokenizer->vocab_size(), 10);
  EXPECT_EQ(tokenizer->decode({5, 7, 8, 9, 1}), "abc  ab");
  EXPECT_EQ(tokenizer->name().substr(0, 5), "gpt2:");
}

// One pair after another, found by looking at all: the definition.
Ids by_definition(const std::string& word) {
  const std::pair<std::pair<int32_t, int32_t>, int32_t> merges[] = {
      {{1, 2}, 4}, {{0, 1}, 3}, {{0, 4}, 5}, {{0, 0}, 6}};
  Ids ids;
  for (const char c : word) ids.push_back(c - 'a');
  while (true) {
    bool merged = false;
    for (const auto& [pair, result] : merges) {
      for (size_t i = 0; i + 1 < ids.size() && !merged; ++i) {
        if (ids[i] != pair.first || ids[i + 1] != pair.second) continue;
        ids[i] = result;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        merged = true;
      }
      if (merged) break;
    }
    if (!merged) return ids;
  }
}

TEST(Bpe, LongAndShortWordsFollowTheDefinition) {
  const TempFolder folder;
  const auto tokenizer = small_gpt2(folder);
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::string word = random_text(seed, 1 + seed % 150, 3);
    EXPECT_EQ(tokenizer->encode(word), by_definition(word)) << word;
    EXPECT_EQ(tokenizer->encode(word), by_definition(word)) << "again, from the cache";
  }
}

// A word of two million letters: seconds at most, where a quadratic search would take hours.
TEST(Bpe, HugeWordsAreNotQuadratic) {
  const TempFolder folder;
  const auto tokenizer = small_gpt2(folder);
  std::string word;
  while (word.size() < 2'000'000) word += "abc";
  EXPECT_EQ(tokenizer->encode(word), Ids(word.size() / 3, 5));
}

TEST(Bpe, RefusesDamagedFiles) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { small_gpt2(folder, kVocab, "a\n"); }), "line 1 of the merges");
  EXPECT_CONTAINS(data_error([&] { small_gpt2(folder, kVocab, "a b\nc c\n"); }), "merge 2");
  EXPECT_CONTAINS(data_error([&] { small_gpt2(folder, "{\"a\":-1}", ""); }), "no count");
  EXPECT_CONTAINS(data_error([&] { small_gpt2(folder, "{}", ""); }), "no tokens");
  TokenizerConfig config;
  config.kind = TokenizerKind::gpt2;
  config.path = folder.at("none");
  EXPECT_CONTAINS(data_error([&] { make_tokenizer(config); }), "neither vocab.json");
}

TEST(Bpe, TheByteAlphabetTellsEveryByte) {
  std::string all, back;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_TRUE(from_byte_alphabet(to_byte_alphabet(all), back));
  EXPECT_EQ(back, all);
  EXPECT_EQ(to_byte_alphabet(" a\n"),
            "\xC4\xA0"
            "a\xC4\x8A");  // as in GPT-2's vocabulary
  EXPECT_FALSE(from_byte_alphabet("a b", back));
}

std::string random_characters(uint64_t seed, uint64_t count) {
  static const char32_t kinds[] = {' ',  ' ',    ' ',    '\n',  '\r',   '\t',    '\'',  '\'',
                                   's',  'S',    'l',    'r',   'e',    'd',     '1',   '2',
                                   '!',  '/',    0xA0,   0x85,  0x180E, 0x200D,  0x301, 0x17F,
                                   0xE9, 0x4E2D, 0x3002, 0x663, 0x3000, 0x1F600, 0xBD};
  std::string text;
  for (uint64_t i = 0; i < count; ++i) {
    append_utf8(kinds[random_bits(seed, 3, i) % std::size(kinds)], text);
  }
  return text;
}

TEST(Bpe, ScannersFindWhatTheirExpressionsMatch) {
  for (const Scanner scanner : {Scanner::gpt2, Scanner::llama3, Scanner::qwen2}) {
    const std::string expression = scanner_expression(scanner);
    EXPECT_EQ(scanner_of(expression), scanner);
    const Pattern pattern(expression, "test");
    for (uint64_t seed = 0; seed < 3000; ++seed) {
      const std::string text = random_characters(seed, 1 + seed % 40);
      std::vector<Stretch> stretches;
      pattern.find(text, stretches);
      size_t at = 0;
      for (const Stretch& s : stretches) {
        ASSERT_TRUE(s.match);
        ASSERT_EQ(s.begin, at);
        at = scan_piece(scanner, text, at);
        ASSERT_EQ(s.end, at) << expression << " in " << text;
      }
      EXPECT_EQ(at, text.size());
    }
  }
  EXPECT_EQ(scanner_of("\\s+"), Scanner::none);
}

TEST(Bpe, PatternsMeanWhatTheyMeanInOniguruma) {
  const struct {
    const char *expression, *text;
    std::vector<size_t> matches;  // begin, end, begin, end ...
  } cases[] = {
      {"\\s",
       "a\xE1\xA0\x8E"
       "b",
       {}},  // U+180E is no white space
      {"[^\\S\\n]+",
       "a \n\xC2\xA0"
       "b",
       {1, 2, 3, 5}},
      {"\\w+", "e\xCC\x81_1\xC2\xBD", {0, 5}},     // marks and connectors, but no fractions
      {"^a", "a\na", {0, 1, 2, 3}},                // every line
      {"a.b", "a\nb a\rb", {4, 7}},                // the dot leaves only line feeds out
      {"x*", "axb", {0, 0, 1, 2, 3, 3}},           // no empty match right behind another
      {"\\p{Greek}", "\xCD\x82\xCE\xB1", {2, 4}},  // U+0342 is Inherited, an extension of Greek
  };
  for (const auto& c : cases) {
    std::vector<Stretch> stretches;
    Pattern(c.expression, "test").find(c.text, stretches);
    std::vector<size_t> matches;
    for (const Stretch& s : stretches) {
      if (s.match) matches.insert(matches.end(), {s.begin, s.end});
    }
    EXPECT_EQ(matches, c.matches) << c.expression;
  }
  for (const char* refused :
       {"\\h", "\\bword", "[[a]b]", "[a&&b]", "(?m)a", "[\\W]", "a\\", "(*UTF)"}) {
    EXPECT_CONTAINS(data_error([&] { Pattern(refused, "file"); }), "file: pattern");
  }
  const Pattern slow("(a+)+$", "file");  // exponential
  std::vector<Stretch> stretches;
  EXPECT_CONTAINS(data_error([&] { slow.find(std::string(60, 'a') + "b", stretches); }),
                  "use a simpler");
}

}  // namespace
}  // namespace espalier
