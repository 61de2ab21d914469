// SPDX-License-Identifier: Apache-2.0
// Verifying shards, finding documents, and the check that training reads no held-out text.
#include "corpus/store/store_reader.hpp"

#include <gtest/gtest.h>

#include "corpus/store/held_out_check.hpp"
#include "store_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::some_documents;
using testing::StoreBuilder;
using testing::TempFolder;
using testing::write_shard;

class StoreReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_.add("wiki", "en", texts_);
    store_.finish();
  }
  std::string verify_all(const Tokenizer* lossless) const {
    return data_error([&] {
      for (const ShardRecord& record : store_.manifest.shards) {
        verify_shard(store_.path(), store_.manifest, record, lossless);
      }
    });
  }
  /// Puts these documents where the first shard was, and makes the manifest agree.
  void replace_first(const std::vector<std::string>& documents) {
    ShardRecord& record = store_.manifest.shards[0];
    const ShardRecord written = write_shard(store_.path() + "/" + record.file, documents);
    record.documents = written.documents;
    record.tokens = written.tokens;
    record.text_bytes = written.text_bytes;
    record.checksum = written.checksum;
    record.index_checksum = written.index_checksum;
    store_.finish();
  }
  OpenTokens open(const std::string& path, Stream stream) const {
    return open_tokens({path}, stream, DataConfig{}, 257);
  }

  TempFolder folder_;
  std::vector<std::string> texts_ = some_documents(1, 40);
  StoreBuilder store_{folder_.at("store")};
  ByteTokenizer bytes_;
};

TEST_F(StoreReaderTest, AGoodStoreIsVerified) {
  int64_t documents = 0;
  for (const ShardRecord& record : store_.manifest.shards) {
    const ShardCheck check = verify_shard(store_.path(), store_.manifest, record, &bytes_);
    EXPECT_EQ(check.counts.tokens, record.tokens);
    EXPECT_EQ(check.texts, record.documents);
    documents += check.texts;
  }
  EXPECT_EQ(documents, 40);
  EXPECT_EQ(verify_all(nullptr), "no exception");
}

TEST_F(StoreReaderTest, AHeldOutDocumentAmongTraining) {
  std::string held_out;
  for (const std::string& text : texts_) {
    if (is_held_out(text, store_.manifest.held_out, store_.manifest.seed)) held_out = text;
  }
  ASSERT_FALSE(held_out.empty());
  replace_first({held_out});
  EXPECT_CONTAINS(verify_all(&bytes_), "belongs to the validation stream by held_out = 0.3");
  EXPECT_EQ(verify_all(nullptr), "no exception");  // the hash column says nothing of it
}

TEST_F(StoreReaderTest, AHashThatIsNotTheTexts) {
  ShardRecord& record = store_.manifest.shards[0];
  const std::string path = store_.path() + "/" + record.file;
  const std::vector<int32_t> tokens = bytes_.encode("text");
  ShardWriter writer(path, bytes_);
  writer.append(tokens.data(), 4);
  writer.end_document(1, 4);
  const ShardRecord written = writer.finish();
  writer.publish();
  record = {record.file, 0, Stream::train, 1, 5, 4, written.checksum, written.index_checksum};
  EXPECT_CONTAINS(verify_all(&bytes_), "document 0 decodes to a text with hash");
}

TEST_F(StoreReaderTest, EveryDocumentIsFoundInOrder) {
  std::vector<std::string> expected;
  for (const Stream stream : {Stream::train, Stream::validation}) {
    for (int piece = 0; piece < 2; ++piece) {
      for (size_t i = static_cast<size_t>(piece); i < texts_.size(); i += 2) {
        const bool out = is_held_out(texts_[i], store_.manifest.held_out, store_.manifest.seed);
        if (out == (stream == Stream::validation)) expected.push_back(texts_[i]);
      }
    }
  }
  for (int64_t n = 0; n < 40; ++n) {
    const StoreDocument document = read_document(store_.path(), store_.manifest, n);
    const std::string& text = expected[static_cast<size_t>(n)];
    EXPECT_EQ(bytes_.decode(document.tokens), text);
    EXPECT_EQ(document.hash, hash_bytes(text.data(), text.size()));
    EXPECT_EQ(document.text_bytes, static_cast<int64_t>(text.size()));
  }
  for (const int64_t n : {int64_t{40}, int64_t{-1}}) {
    EXPECT_CONTAINS(data_error([&] { read_document(store_.path(), store_.manifest, n); }),
                    fmt::format("has no document {}; its documents are 0 to 39", n));
  }
}

TEST_F(StoreReaderTest, ASummaryForPeople) {
  store_.add("leer", "", {});
  const std::string text = describe_store(store_.manifest);
  for (const char* part : {"tokenizer bytes", "train/wiki", "validation/wiki", "train/leer",
                           "train/all", "language", "held out 0.3 (seed 5)", "(none)"}) {
    EXPECT_CONTAINS(text, part);
  }
  EXPECT_CONTAINS(text, fmt::format("{}", count_shards(store_.manifest, Stream::train).tokens));
}

TEST_F(StoreReaderTest, TheTwoStreamsOfAStoreAreDisjoint) {
  const OpenTokens train = open(store_.path(), Stream::train);
  const OpenTokens validation = open(store_.path(), Stream::validation);
  EXPECT_NO_THROW(require_disjoint(train, validation));
}

TEST_F(StoreReaderTest, AHeldOutDocumentInAnotherStoreIsFound) {
  const OpenTokens validation = open(store_.path(), Stream::validation);
  const auto& held_out = dynamic_cast<const Shard&>(*validation.sources[0].parts[1]);
  const std::string text = bytes_.decode(document_tokens(held_out, 1));
  std::vector<std::string> texts = some_documents(7, 30);
  texts[20] = text;  // shard 0 of its store holds the even ones
  StoreBuilder other(folder_.at("other"), 0.0);
  other.add("copy", "", texts);
  other.finish();
  const OpenTokens train = open(other.path(), Stream::train);
  const std::string message = data_error([&] { require_disjoint(train, validation); });
  EXPECT_CONTAINS(message, "other/train/copy-00000.tok: document 10 is held out");
  EXPECT_CONTAINS(message, fmt::format("document 1 of {}", held_out.path()));
}

TEST_F(StoreReaderTest, EqualPlainFilesAreWarnedOf) {
  const std::string path = testing::write_documents(folder_.at("a.tok"), {"a", "b"});
  const std::string copy = testing::write_documents(folder_.at("b.tok"), {"a", "b"});
  const std::string more = testing::write_documents(folder_.at("c.tok"), {"a", "c"});
  const auto warning = [&](const std::string& held_out) {
    ::testing::internal::CaptureStderr();
    require_disjoint(open(path, Stream::train), open(held_out, Stream::validation));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_CONTAINS(warning(copy), "holds the same tokens as");
  EXPECT_EQ(warning(more), "");
}

}  // namespace
}  // namespace espalier
