// SPDX-License-Identifier: Apache-2.0
// Shards: what is written is read back, every flipped bit is found, and a killed writer leaves
// nothing under the final names.
#include "corpus/store/shard.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "corpus/store/shard_index.hpp"
#include "store_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::read_bytes;
using testing::TempFolder;
using testing::write_shard;

const std::vector<std::string> kTexts = {"one", "", "three\n", "\xff\xfe broken"};

class ShardTest : public ::testing::Test {
 protected:
  void SetUp() override { record_ = write_shard(path_, kTexts); }

  std::string refusal(VerifyData verify = VerifyData::full) const {
    return data_error([&] { Shard(path_, verify); });
  }
  /// The index with a field of its header changed, and the header's checksum made right again.
  template <class T>
  void forge(size_t at, T value) const {
    std::string bytes = index_;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    const uint64_t checksum = hash_bytes(bytes.data(), 72);
    std::memcpy(bytes.data() + 72, &checksum, 8);
    folder_.write("a.idx", bytes);
  }

  TempFolder folder_;
  std::string path_ = folder_.at("a.tok");
  ShardRecord record_;
  std::string index_, tokens_;
};

TEST_F(ShardTest, ReadsWhatWasWritten) {
  EXPECT_EQ(record_.file, path_);
  EXPECT_EQ(record_.documents, 4);
  EXPECT_EQ(record_.tokens, 3 + 0 + 6 + 9 + 4);
  EXPECT_EQ(record_.text_bytes, 18);
  EXPECT_EQ(record_.checksum, hash_bytes(read_bytes(path_).data(), read_bytes(path_).size()));
  const std::string index = read_bytes(folder_.at("a.idx"));
  EXPECT_EQ(record_.index_checksum, hash_bytes(index.data(), index.size()));
  for (const VerifyData verify : {VerifyData::full, VerifyData::header}) {
    const Shard shard(path_, verify);
    EXPECT_TRUE(shard.has_index());
    EXPECT_EQ(shard.documents(), 4);
    EXPECT_EQ(shard.tokens(), record_.tokens);
    EXPECT_EQ(shard.tokenizer(), "bytes");
    EXPECT_EQ(shard.vocab_size(), 257);
    EXPECT_EQ(shard.end_of_document(), 256);
    EXPECT_EQ(shard.text_bytes(), 18);
    int64_t at = 0;
    for (int64_t i = 0; i < 4; ++i) {
      const std::string& text = kTexts[static_cast<size_t>(i)];
      EXPECT_EQ(shard.document_begin(i), at);
      EXPECT_EQ(shard.document_hash(i), hash_bytes(text.data(), text.size()));
      EXPECT_EQ(shard.document_text_bytes(i), static_cast<int64_t>(text.size()));
      at += static_cast<int64_t>(text.size()) + 1;
    }
    EXPECT_EQ(shard.document_begin(4), shard.tokens());
    EXPECT_THROW(shard.document_begin(5), InternalError);
    EXPECT_THROW(shard.document_hash(4), InternalError);
    EXPECT_THROW(shard.document_hash(-1), InternalError);
  }
}

// The layout of docs/token-store-format.md, byte by byte.
TEST_F(ShardTest, IndexIsAsDescribed) {
  std::string expected(
      "\x89"
      "ESPIDX\n",
      8);
  testing::put(expected, uint32_t{1});
  testing::put(expected, uint32_t{80});
  testing::put(expected, uint32_t{24});
  testing::put(expected, uint32_t{0});
  testing::put(expected, int64_t{4});
  testing::put(expected, int64_t{22});
  testing::put(expected, int64_t{18});
  expected += read_bytes(path_).substr(120, 8);
  std::string records;
  int64_t end = 0;
  for (const std::string& text : kTexts) {
    end += static_cast<int64_t>(text.size()) + 1;
    testing::put(records, end);
    testing::put(records, hash_bytes(text.data(), text.size()));
    testing::put(records, static_cast<int64_t>(text.size()));
  }
  testing::put(expected, hash_bytes(records.data(), records.size()));
  testing::put(expected, uint64_t{0});
  testing::put(expected, hash_bytes(expected.data(), 72));
  EXPECT_EQ(read_bytes(folder_.at("a.idx")), expected + records);
}

TEST_F(ShardTest, EveryFlippedBitIsFoundByFull) {
  for (const char* name : {"a.idx", "a.tok"}) {
    const std::string good = read_bytes(folder_.at(name));
    for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bytes = good;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      folder_.write(name, bytes);
      EXPECT_CONTAINS(refusal(), folder_.at(name));
    }
    folder_.write(name, good);
  }
  EXPECT_EQ(refusal(), "no exception");
}

TEST_F(ShardTest, EveryTruncationIsFoundByHeader) {
  const std::string good = read_bytes(folder_.at("a.idx"));
  for (size_t size = 0; size < good.size(); ++size) {
    folder_.write("a.idx", good.substr(0, size));
    EXPECT_CONTAINS(refusal(VerifyData::header), folder_.at("a.idx"));
  }
  folder_.write("a.idx", good + "x");
  EXPECT_CONTAINS(refusal(VerifyData::header), "something was added");
  std::filesystem::remove(folder_.at("a.idx"));
  EXPECT_CONTAINS(refusal(VerifyData::header), "a.idx: cannot be opened");
}

TEST_F(ShardTest, ForgedFieldsAreRefused) {
  index_ = read_bytes(folder_.at("a.idx"));
  const auto message = [&](auto at, auto value) {
    forge(static_cast<size_t>(at), value);
    return refusal(VerifyData::header);
  };
  EXPECT_CONTAINS(message(8, uint32_t{2}), "is newer than the 1");
  EXPECT_CONTAINS(message(8, uint32_t{0}), "is not as version 1 has it");
  EXPECT_CONTAINS(message(12, uint32_t{88}), "is not as version 1 has it");
  EXPECT_CONTAINS(message(16, uint32_t{16}), "is not as version 1 has it");
  EXPECT_CONTAINS(message(20, uint32_t{1}), "is not as version 1 has it");
  EXPECT_CONTAINS(message(64, uint64_t{1}), "is not as version 1 has it");
  EXPECT_CONTAINS(message(24, int64_t{0}), "document count 0");
  EXPECT_CONTAINS(message(24, int64_t{-1}), "document count -1");
  EXPECT_CONTAINS(message(24, std::numeric_limits<int64_t>::max()), "document count");
  EXPECT_CONTAINS(message(24, int64_t{3}), "something was added");
  EXPECT_CONTAINS(message(32, int64_t{3}), "too few");
  EXPECT_CONTAINS(message(32, int64_t{23}), "last document ends at token 22");
  EXPECT_CONTAINS(message(40, int64_t{-1}), "-1 bytes of text");
  EXPECT_CONTAINS(message(48, uint64_t{1}), "is the index of another token file");
  forge(40, int64_t{19});
  EXPECT_CONTAINS(refusal(VerifyData::full), "its documents have 18 bytes of text");
}

TEST_F(ShardTest, ForgedRecordsAreRefused) {
  const std::string good = read_bytes(folder_.at("a.idx"));
  const auto message = [&](size_t record, int64_t end, VerifyData verify) {
    index_ = good;
    std::memcpy(index_.data() + 80 + 24 * record, &end, 8);
    forge(56, hash_bytes(index_.data() + 80, index_.size() - 80));
    return data_error([&] {
      const Shard shard(path_, verify);
      for (int64_t i = 0; i <= 4; ++i) shard.document_begin(i);
    });
  };
  for (const int64_t end : {int64_t{0}, int64_t{-5}, int64_t{22}, int64_t{1} << 62}) {
    EXPECT_CONTAINS(message(1, end, VerifyData::header), "the index is damaged");
  }
  EXPECT_CONTAINS(message(1, 3, VerifyData::full), "document 1 ends at token 3, that before it at");
  EXPECT_CONTAINS(message(1, 6, VerifyData::full), "not with the end-of-document id 256");
}

TEST_F(ShardTest, AnotherTokenFileIsNoticed) {
  write_shard(folder_.at("b.tok"), {"one", "", "three\n", "\xff\xfe brokem"});
  std::filesystem::copy_file(folder_.at("b.tok"), path_,
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_CONTAINS(refusal(VerifyData::header), "is the index of another token file");
}

TEST(ShardWriterTest, NoDocumentNoFile) {
  const TempFolder folder;
  write_shard(folder.at("a.tok"), {"old"});
  const ShardRecord record = write_shard(folder.at("a.tok"), {});
  EXPECT_EQ(record.documents + record.tokens + record.text_bytes, 0);
  EXPECT_TRUE(folder.names().empty());
}

TEST(ShardWriterTest, MisuseIsRefused) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  const int32_t end = 256, letter = 'a';
  ShardWriter writer(folder.at("a.tok"), tokenizer);
  EXPECT_THROW(writer.publish(), InternalError);
  writer.append(&letter, 1);
  EXPECT_THROW(writer.finish(), InternalError);  // a document without end
  writer.append(&end, 1);
  EXPECT_THROW(writer.end_document(0, 1), InternalError);  // an end inside of a document
}

TEST(ShardWriterTest, ManyDocuments) {
  const TempFolder folder;
  const ByteTokenizer tokenizer;
  ShardWriter writer(folder.at("a.tok"), tokenizer);
  const int32_t letters[3] = {'a', 'b', 'c'};
  constexpr int64_t kDocuments = 20000;  // more than the writer buffers
  for (int64_t i = 0; i < kDocuments; ++i) {
    writer.append(letters, i % 4);
    writer.end_document(static_cast<uint64_t>(i) * 77, i % 4);
  }
  writer.finish();
  writer.publish();
  const Shard shard(folder.at("a.tok"), VerifyData::full);
  ASSERT_EQ(shard.documents(), kDocuments);
  for (int64_t i = 0; i < kDocuments; ++i) {
    EXPECT_EQ(shard.document_begin(i + 1) - shard.document_begin(i), i % 4 + 1);
    EXPECT_EQ(shard.document_hash(i), static_cast<uint64_t>(i) * 77);
  }
}

TEST(ShardWriterTest, AKilledWriterLeavesOnlyPartialFiles) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const ByteTokenizer tokenizer;
    ShardWriter writer(folder.at("a.tok"), tokenizer);
    writer.end_document(0, 0);
    writer.finish();
    std::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.names().size(), 2U);
  for (const std::string& name : folder.names()) EXPECT_CONTAINS(name, ".partial-");
}

}  // namespace
}  // namespace espalier
