// SPDX-License-Identifier: Apache-2.0
// The byte tokenizer, and UTF-8 for display and for cuts.
#include "corpus/tokenizer.hpp"

#include <gtest/gtest.h>

#include "corpus/utf8.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;

TEST(Tokenizer, EveryByteGoesThereAndBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  const ByteTokenizer tokenizer;
  const std::vector<int32_t> tokens = tokenizer.encode(all);
  ASSERT_EQ(tokens.size(), 256u);
  for (int c = 0; c < 256; ++c) EXPECT_EQ(tokens[static_cast<size_t>(c)], c);
  EXPECT_EQ(tokenizer.decode(tokens), all);
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(tokenizer.end_of_document(), 256);
  EXPECT_EQ(tokenizer.decode({72, 256, 105}), "Hi");
  EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(Tokenizer, AppendsToWhatIsThere) {
  const ByteTokenizer tokenizer;
  std::vector<int32_t> tokens = {256};
  tokenizer.append_tokens("ab", tokens);
  EXPECT_EQ(tokens, (std::vector<int32_t>{256, 'a', 'b'}));
}

TEST(Tokenizer, RefusesForeignIdsAndNames) {
  const ByteTokenizer tokenizer;
  EXPECT_CONTAINS(data_error([&] { tokenizer.decode({65, 257}); }), "token id 257 at place 1");
  EXPECT_CONTAINS(data_error([&] { tokenizer.decode({-1}); }), "token id -1");
  EXPECT_EQ(make_tokenizer("bytes")->name(), "bytes");
  EXPECT_CONTAINS(data_error([&] { make_tokenizer("gpt2"); }), "this program has: bytes");
}

// Expected counts worked out by hand from table 3-7 of the Unicode Standard.
TEST(Tokenizer, DisplayReplacesBrokenSequences) {
  const std::string r = "\xEF\xBF\xBD";
  const struct {
    std::string text, shown;
    int64_t broken;
  } cases[] = {
      {"plain", "plain", 0},
      {"", "", 0},
      {"\xC3\xA9\xE6\x97\xA5\xF0\x9F\x8C\xB3", "\xC3\xA9\xE6\x97\xA5\xF0\x9F\x8C\xB3", 0},
      {"a\x80z", "a" + r + "z", 1},
      {"\xC0\xAF", r + r, 2},                  // overlong
      {"\xC3", r, 1},                          // cut off
      {"\xE6\x97", r, 1},                      // cut off: one maximal subpart
      {"\xE6\x97x", r + "x", 1},               //
      {"\xE0\x80\x80", r + r + r, 3},          // overlong, three subparts
      {"\xED\xA0\x80", r + r + r, 3},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r, 4},  // above U+10FFFF
      {"\xF0\x9F\x8C", r, 1},                  //
      {"\xF0\x9F\x8C\xC3\xA9", r + "\xC3\xA9", 1},
      {"\xF5\xFF", r + r, 2},
      {std::string(20, 'a') + "\xFF" + std::string(20, 'b'),
       std::string(20, 'a') + r + std::string(20, 'b'), 1},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(printable_text(c.text), c.shown);
    EXPECT_EQ(count_broken_utf8(c.text), c.broken) << c.shown;
    EXPECT_EQ(count_broken_utf8(c.shown), 0);
  }
}

TEST(Tokenizer, RandomBytesBecomeValidForDisplay) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < 64; ++i) {
      text.push_back(static_cast<char>(128 + random_bits(seed, 1, i) % 128));
    }
    const std::string shown = printable_text(text);
    EXPECT_EQ(count_broken_utf8(shown), 0);
    int64_t marks = 0;
    for (size_t at = shown.find("\xEF\xBF\xBD"); at != std::string::npos;
         at = shown.find("\xEF\xBF\xBD", at + 3)) {
      ++marks;
    }
    EXPECT_EQ(marks, count_broken_utf8(text));
  }
}

TEST(Tokenizer, BoundariesDoNotCutCharacters) {
  const std::string text = "a\xC3\xA9\xE6\x97\xA5\xF0\x9F\x8C\xB3z";  // 1 + 2 + 3 + 4 + 1
  const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (size_t at = 0; at <= text.size(); ++at) EXPECT_EQ(utf8_boundary(text, at), expected[at]);
  const std::string broken(10, '\x80');  // no character anywhere: cut where asked
  for (size_t at = 0; at <= broken.size(); ++at) EXPECT_EQ(utf8_boundary(broken, at), at);
}

}  // namespace
}  // namespace espalier
