// SPDX-License-Identifier: Apache-2.0
// Token files that are damaged, truncated, foreign or forged: each is refused, and says why.
#include "corpus/token_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <limits>

#include "corpus/hash.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::read_bytes;
using testing::TempFolder;
using testing::write_documents;

void open(const std::string& path, VerifyData verify) {
  const TokenFile file(path, verify);
}

class TokenFileTest : public ::testing::Test {
 protected:
  std::string good() const { return read_bytes(path_); }

  /// Message of opening these bytes as a file.
  std::string refusal(const std::string& bytes, VerifyData verify = VerifyData::full) const {
    const std::string path = folder_.write("bad.tok", bytes);
    const std::string message = data_error([&] { open(path, verify); });
    EXPECT_EQ(message.compare(0, path.size(), path), 0) << "no file name in: " << message;
    return message;
  }

  /// The good file with a field of its header changed, and the header's checksum made right again.
  template <class T>
  std::string forged(size_t at, T value) const {
    std::string bytes = good();
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    const uint64_t checksum = hash_bytes(bytes.data(), 120);
    std::memcpy(bytes.data() + 120, &checksum, 8);
    return bytes;
  }

  TempFolder folder_;
  std::string path_ = write_documents(folder_.at("good.tok"), {"one", "", "three"});
};

TEST_F(TokenFileTest, HoldsWhatWasWritten) {
  for (const VerifyData verify : {VerifyData::full, VerifyData::header}) {
    const TokenFile file(path_, verify);
    EXPECT_EQ(file.tokens(), 11);
    EXPECT_EQ(file.header().documents, 3);
    EXPECT_EQ(file.header().vocab_size, 257);
    EXPECT_EQ(file.header().end_of_document, 256);
    EXPECT_EQ(file.header().tokenizer, "bytes");
    std::vector<int32_t> tokens(11);
    file.read(0, 11, tokens.data());
    EXPECT_EQ(tokens,
              (std::vector<int32_t>{'o', 'n', 'e', 256, 256, 't', 'h', 'r', 'e', 'e', 256}));
    file.read(5, 2, tokens.data());
    EXPECT_EQ(tokens[0], 't');
    file.read(11, 0, tokens.data());
    EXPECT_THROW(file.read(10, 2, tokens.data()), InternalError);
    EXPECT_THROW(file.read(-1, 1, tokens.data()), InternalError);
  }
}

TEST_F(TokenFileTest, FindsDocuments) {
  const TokenFile file(path_, VerifyData::full);
  const int64_t expected[3][2] = {{0, 3}, {4, 4}, {5, 10}};
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(find_document(file, i).begin, expected[i][0]);
    EXPECT_EQ(find_document(file, i).end, expected[i][1]);
  }
  EXPECT_CONTAINS(data_error([&] { find_document(file, 3); }), "its documents are 0 to 2");
  EXPECT_CONTAINS(data_error([&] { find_document(file, -1); }), "no document -1");
}

TEST_F(TokenFileTest, MovesWithoutCopy) {
  TokenFile a(path_, VerifyData::full);
  TokenFile b(std::move(a));
  TokenFile c(write_documents(folder_.at("other.tok"), {"x"}), VerifyData::full);
  c = std::move(b);
  EXPECT_EQ(c.tokens(), 11);
  EXPECT_EQ(c.path(), path_);
}

TEST_F(TokenFileTest, EveryFlippedHeaderBitIsFound) {
  for (const VerifyData verify : {VerifyData::full, VerifyData::header}) {
    for (size_t bit = 0; bit < 8 * kTokenHeaderBytes; ++bit) {
      std::string bytes = good();
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      const std::string message = refusal(bytes, verify);
      if (bit / 8 < 8) {
        EXPECT_CONTAINS(message, "not a token file");
      } else if (bit / 8 < 12) {  // bit 0 makes version 0, the others a newer one
        EXPECT_CONTAINS(message, bit == 64 ? "header is damaged" : "is newer than the 1");
      } else {
        EXPECT_CONTAINS(message, "header is damaged");
      }
    }
  }
}

TEST_F(TokenFileTest, EveryFlippedPayloadBitIsFoundByFull) {
  const std::string bytes = good();
  for (size_t bit = 8 * kTokenHeaderBytes; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_CONTAINS(refusal(damaged), "its tokens are damaged (checksum");
  }
}

// Header verification cannot see a changed letter, but an impossible id is found when it is read.
TEST_F(TokenFileTest, IdsOutOfRangeAreFoundByPosition) {
  std::string bytes = good();
  bytes[kTokenHeaderBytes + 2 * 7 + 1] = 2;  // token 7: 'r' + 512
  const std::string path = folder_.write("id.tok", bytes);
  const TokenFile file(path, VerifyData::header);
  std::vector<int32_t> tokens(11);
  file.read(0, 7, tokens.data());
  EXPECT_CONTAINS(data_error([&] { file.read(5, 4, tokens.data()); }),
                  "token 7 has id 626, but ids are below 257");
  EXPECT_CONTAINS(data_error([&] { file.verify_payload(); }), "its tokens are damaged");
}

TEST_F(TokenFileTest, EveryTruncationAndAdditionIsFound) {
  const std::string bytes = good();
  EXPECT_CONTAINS(refusal(""), "is empty");
  for (size_t size = 1; size < bytes.size(); ++size) {
    const std::string message = refusal(bytes.substr(0, size), VerifyData::header);
    if (size < 8) {
      EXPECT_CONTAINS(message, "not a token file");
    } else if (size < kTokenHeaderBytes) {
      EXPECT_CONTAINS(message, "cut off inside its header");
    } else {
      EXPECT_CONTAINS(message, "it is truncated");
      EXPECT_CONTAINS(message, fmt::format("{} bytes, but 11 tokens of 2 bytes", size));
    }
  }
  EXPECT_CONTAINS(refusal(bytes + "x", VerifyData::header), "something was added");
  EXPECT_CONTAINS(refusal(bytes + bytes, VerifyData::header), "something was added");
}

TEST_F(TokenFileTest, ForgedFieldsAreRefused) {
  EXPECT_EQ(forged<int64_t>(32, 11), good()) << "the forger itself is at fault";
  constexpr auto huge = std::numeric_limits<int64_t>::max();
  EXPECT_CONTAINS(refusal(forged<uint32_t>(8, 2)), "version 2 is newer");
  EXPECT_CONTAINS(refusal(forged<uint32_t>(8, 0)), "version 0");
  EXPECT_CONTAINS(refusal(forged<uint32_t>(12, 256)), "header size 256");
  EXPECT_CONTAINS(refusal(forged<uint32_t>(16, 4)),
                  "ids of 4 bytes, but vocab_size 257 asks for 2");
  EXPECT_CONTAINS(refusal(forged<uint32_t>(20, 1)), "reserved field");
  EXPECT_CONTAINS(refusal(forged<uint64_t>(112, 1)), "reserved field");
  EXPECT_CONTAINS(refusal(forged<int64_t>(24, 0)), "vocab_size = 0");
  EXPECT_CONTAINS(refusal(forged<int64_t>(24, -1)), "vocab_size = -1");
  EXPECT_CONTAINS(refusal(forged<int64_t>(24, int64_t{1} << 31)), "vocab_size = 2147483648");
  EXPECT_CONTAINS(refusal(forged<int64_t>(32, 0)), "it holds no tokens");
  EXPECT_CONTAINS(refusal(forged<int64_t>(32, huge)), "more than any file can hold");
  EXPECT_CONTAINS(refusal(forged<int64_t>(32, huge / 2)), "more than any file can hold");
  EXPECT_CONTAINS(refusal(forged<int64_t>(32, -1)), "more than any file can hold");
  EXPECT_CONTAINS(refusal(forged<int64_t>(32, huge / 4)), "it is truncated");
  EXPECT_CONTAINS(refusal(forged<int64_t>(40, 12)), "document count 12 exceeds");
  EXPECT_CONTAINS(refusal(forged<int64_t>(40, -1)), "document count 18446744073709551615");
  EXPECT_CONTAINS(refusal(forged<int64_t>(48, 257)), "end-of-document id 257");
  EXPECT_CONTAINS(refusal(forged<int64_t>(48, -1)), "end-of-document id");
  EXPECT_CONTAINS(refusal(forged<char>(56, '\0')), "bytes after the end of the tokenizer's name");
  EXPECT_CONTAINS(refusal(forged<char>(57, '\n')), "not printable");
  EXPECT_CONTAINS(refusal(forged<char>(103, 'x')), "bytes after the end of the tokenizer's name");
  EXPECT_CONTAINS(refusal(forged<std::array<char, 48>>(56, {})), "name has 0 bytes");
  std::array<char, 48> endless;
  endless.fill('x');
  EXPECT_CONTAINS(refusal(forged(56, endless)), "name has 48 bytes");
  EXPECT_CONTAINS(refusal(forged<uint64_t>(104, 1)), "its tokens are damaged");
}

TEST_F(TokenFileTest, OtherThingsThanTokenFiles) {
  EXPECT_CONTAINS(data_error([&] { open(folder_.at("none"), VerifyData::full); }),
                  "check the path");
  EXPECT_CONTAINS(data_error([&] { open(folder_.at("."), VerifyData::full); }), "is a folder");
  EXPECT_CONTAINS(data_error([&] { open("/dev/zero", VerifyData::full); }), "not a regular file");
  EXPECT_CONTAINS(refusal(std::string(1000, 'x')), "make one from text");
  EXPECT_CONTAINS(refusal(testing::gzip(std::string(1000, 'x'))), "not a token file");
}

// A billion tokens open at once where only the header is verified: a sparse file costs no disk.
TEST_F(TokenFileTest, ABillionTokensOpenAtOnce) {
  TokenHeader header;
  header.vocab_size = 257;
  header.end_of_document = 256;
  header.tokenizer = "bytes";
  header.tokens = 1000000000;
  const TokenHeaderBytes bytes = encode_token_header(header);
  const std::string path = folder_.write(
      "sparse.tok", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::filesystem::resize_file(path, kTokenHeaderBytes + 2u * 1000000000u);
  const std::clock_t begin = std::clock();  // processor time: other programs do not count
  const TokenFile file(path, VerifyData::header);
  int32_t last = -1;
  file.read(file.tokens() - 1, 1, &last);
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(last, 0);
  EXPECT_LT(spent, 0.05);
}

}  // namespace
}  // namespace espalier
