// SPDX-License-Identifier: Apache-2.0
// Token files are written whole or not at all, in both widths, and as the document describes them.
#include "corpus/token_file_writer.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "corpus/token_file.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::read_bytes;
using testing::TempFolder;

/// A vocabulary of any size; only what the writer asks for.
class NumberTokenizer : public Tokenizer {
 public:
  explicit NumberTokenizer(int64_t size) : size_(size) {}
  std::string name() const override { return "numbers"; }
  int64_t vocab_size() const override { return size_; }
  int32_t end_of_document() const override { return static_cast<int32_t>(size_ - 1); }
  void append_tokens(std::string_view, std::vector<int32_t>&) const override {}
  size_t piece_end(std::string_view text, size_t) const override { return text.size(); }
  void append_text(const int32_t*, int64_t, std::string&) const override {}

 private:
  int64_t size_;
};

TEST(TokenWriter, BothWidthsInPiecesOfEverySize) {
  const TempFolder folder;
  for (const int64_t vocab : {int64_t{2}, int64_t{65536}, int64_t{65537}, int64_t{2147483647}}) {
    const NumberTokenizer tokenizer(vocab);
    TokenFileWriter writer(folder.at("a.tok"), tokenizer);
    std::vector<int32_t> all;
    int64_t documents = 0;
    for (size_t piece = 0; piece < 40; ++piece) {
      std::vector<int32_t> tokens(piece * piece * 300);
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto bits = random_bits(piece, 1, i) % static_cast<uint64_t>(vocab);
        tokens[i] = static_cast<int32_t>(i % 100 == 0 ? vocab - 1 : static_cast<int64_t>(bits));
        documents += tokens[i] == vocab - 1;
      }
      writer.append(tokens.data(), static_cast<int64_t>(tokens.size()));
      all.insert(all.end(), tokens.begin(), tokens.end());
    }
    writer.finish();
    writer.publish();
    const TokenFile file(folder.at("a.tok"), VerifyData::full);
    EXPECT_EQ(file.header().token_bytes(), vocab <= 65536 ? 2 : 4);
    EXPECT_EQ(file.header().documents, documents);
    ASSERT_EQ(file.tokens(), static_cast<int64_t>(all.size()));
    std::vector<int32_t> back(all.size());
    file.read(0, file.tokens(), back.data());
    EXPECT_EQ(back, all);
  }
}

// The layout of docs/token-file-format.md, byte by byte, independent of the program's own reader.
TEST(TokenWriter, BytesAreAsDocumented) {
  const TempFolder folder;
  const std::string bytes =
      read_bytes(testing::write_documents(folder.at("a.tok"), {"Hi", "\xFF"}));
  const auto number = [&](size_t at, size_t width) {
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
  };
  ASSERT_EQ(bytes.size(), 128u + 5 * 2);
  EXPECT_EQ(bytes.substr(0, 8),
            "\x89"
            "ESPTOK\n");
  EXPECT_EQ(number(8, 4), 1u);
  EXPECT_EQ(number(12, 4), 128u);
  EXPECT_EQ(number(16, 4), 2u);
  EXPECT_EQ(number(20, 4), 0u);
  EXPECT_EQ(number(24, 8), 257u);
  EXPECT_EQ(number(32, 8), 5u);
  EXPECT_EQ(number(40, 8), 2u);
  EXPECT_EQ(number(48, 8), 256u);
  EXPECT_EQ(bytes.substr(56, 48), "bytes" + std::string(43, '\0'));
  EXPECT_EQ(number(104, 8), hash_bytes(bytes.data() + 128, 10));
  EXPECT_EQ(number(112, 8), 0u);
  EXPECT_EQ(number(120, 8), hash_bytes(bytes.data(), 120));
  const uint64_t tokens[] = {'H', 'i', 256, 255, 256};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(number(128 + 2 * i, 2), tokens[i]);
}

TEST(TokenWriter, NothingIsSeenBeforePublish) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  testing::write_documents(folder.at("a.tok"), {"old"});
  const std::string old = read_bytes(folder.at("a.tok"));
  {
    TokenFileWriter writer(folder.at("a.tok"), tokenizer);
    TokenFileWriter other(folder.at("a.tok"), tokenizer);  // two at once do not touch each other
    const int32_t tokens[] = {'x', 256};
    writer.append(tokens, 2);
    EXPECT_EQ(folder.names().size(), 3u);
    writer.finish();
    EXPECT_EQ(read_bytes(folder.at("a.tok")), old);
    EXPECT_THROW(writer.append(tokens, 2), InternalError);
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.tok"}) << "leftovers";
  EXPECT_EQ(read_bytes(folder.at("a.tok")), old);
}

TEST(TokenWriter, RefusesBadIdsAndEmptyFiles) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  for (const int32_t id : {257, -1, 65536 + 5}) {
    TokenFileWriter writer(folder.at("a.tok"), tokenizer);
    EXPECT_THROW(writer.append(&id, 1), InternalError) << id;
  }
  TokenFileWriter writer(folder.at("a.tok"), tokenizer);
  EXPECT_THROW(writer.publish(), InternalError);
  EXPECT_THROW(writer.finish(), InternalError);
}

TEST(TokenWriter, SaysWhyItCannotWrite) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  EXPECT_CONTAINS(data_error([&] { TokenFileWriter(folder.at("no/a.tok"), tokenizer); }),
                  "cannot be created: No such file or directory");
  std::filesystem::create_directory(folder.at("taken"));
  const int32_t tokens[] = {'x', 256};
  TokenFileWriter writer(folder.at("taken"), tokenizer);
  writer.append(tokens, 2);
  writer.finish();
  EXPECT_CONTAINS(data_error([&] { writer.publish(); }), "cannot rename it");
}

}  // namespace
}  // namespace espalier
