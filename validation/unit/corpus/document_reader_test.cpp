// SPDX-License-Identifier: Apache-2.0
// Where texts are cut into documents.
#include "corpus/document_reader.hpp"

#include <gtest/gtest.h>

#include "corpus/utf8.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::gzip;
using testing::random_text;
using testing::TempFolder;

std::vector<std::string> read_documents(const std::string& path, int64_t document_bytes) {
  DocumentReader reader(path, document_bytes);
  std::vector<std::string> documents;
  std::string_view document;
  while (reader.next(document)) documents.emplace_back(document);
  EXPECT_FALSE(reader.next(document)) << "a second end";
  return documents;
}

std::string join(const std::vector<std::string>& documents) {
  std::string all;
  for (const auto& document : documents) all += document;
  return all;
}

TEST(DocumentReader, CutsAtBlankLinesElseLinesElseCharacters) {
  //                          0123456789
  EXPECT_EQ(find_document_cut("aaaaa\n\nbb\ncc", 10), 7u);  // blank line rather than a later line
  EXPECT_EQ(find_document_cut("aaaaa\r\n\r\nb\ncc", 12), 9u);
  EXPECT_EQ(find_document_cut("aaaaa\nbb\nccc", 10), 9u);     // the last line end
  EXPECT_EQ(find_document_cut("a\n\naaaaaaaaaaa", 10), 10u);  // that one is in the first half
  EXPECT_EQ(find_document_cut("aaaaaaaa\n\nb", 10), 10u);     // blank line that ends right there
  EXPECT_EQ(find_document_cut("aaaaaaaaa\n\nb", 10), 10u);    // only its first feed is within
  EXPECT_EQ(find_document_cut("aaaaaaaaa\xC3\xA9zz", 10), 9u);
  EXPECT_EQ(find_document_cut("aaaaaaa\xF0\x9F\x8C\xB3zz", 10), 7u);
  EXPECT_EQ(find_document_cut("aaaaaaaa\xC3\xA9zz", 10), 10u);
  EXPECT_EQ(find_document_cut(std::string(20, '\xA9'), 10), 10u);  // no character to spare
}

TEST(DocumentReader, WholeFilesAndEmptyOnes) {
  const TempFolder folder;
  const std::string text = random_text(1, 2000000);
  EXPECT_EQ(read_documents(folder.write("a", text), 0), std::vector<std::string>{text});
  EXPECT_EQ(read_documents(folder.write("a", gzip(text)), 0), std::vector<std::string>{text});
  EXPECT_TRUE(read_documents(folder.write("a", ""), 0).empty());
  EXPECT_TRUE(read_documents(folder.write("a", ""), 100).empty());
  EXPECT_TRUE(read_documents(folder.write("a", gzip("")), 100).empty());
  EXPECT_EQ(read_documents(folder.write("a", "x"), 64), std::vector<std::string>{"x"});
}

// Characters of 1 to 4 bytes with a line end now and then.
std::string mixed_text(uint64_t seed, size_t characters) {
  static const std::string kParts[] = {"a",  " ",   "\xC3\xA9", "\xE6\x97\xA5", "\xF0\x9F\x8C\xB3",
                                       "\n", "\n\n"};
  std::string text;
  for (size_t i = 0; i < characters; ++i) {
    const uint64_t r = random_bits(seed, 3, i) % 400;
    text += kParts[r < 6 ? 5 : r < 8 ? 6 : r % 5];
  }
  return text;
}

TEST(DocumentReader, PiecesAreTheTextAndKeepCharactersWhole) {
  const TempFolder folder;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::string text = mixed_text(seed, 20000 * (seed % 3 + 1));
    ASSERT_EQ(count_broken_utf8(text), 0);
    const std::string plain = folder.write("plain", text);
    const std::string packed = folder.write("packed", gzip(text));
    for (const int64_t size : {int64_t{64}, int64_t{100}, int64_t{1000}, int64_t{400000}}) {
      const auto documents = read_documents(plain, size);
      EXPECT_EQ(join(documents), text);
      EXPECT_EQ(read_documents(packed, size), documents) << "cuts depend on how bytes arrive";
      for (size_t i = 0; i < documents.size(); ++i) {
        EXPECT_EQ(count_broken_utf8(documents[i]), 0);
        EXPECT_LE(documents[i].size(), static_cast<size_t>(size));
        // At most three bytes are given up for a character.
        if (i + 1 < documents.size()) {
          EXPECT_GT(documents[i].size() + 4, static_cast<size_t>(size / 2));
        }
      }
    }
  }
}

}  // namespace
}  // namespace espalier
