// SPDX-License-Identifier: Apache-2.0
// What data.train and data.validation may name, alone and together.
#include <gtest/gtest.h>

#include "corpus/store/foreign_files.hpp"
#include "corpus/store/shard.hpp"
#include "store_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::error_of;
using testing::ids_as;
using testing::some_documents;
using testing::StoreBuilder;
using testing::TempFolder;
using testing::write_documents;

class OpenTokensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    StoreBuilder store(store_);
    store.add("wiki", "en", some_documents(1, 30));
    store.add("books", "de", some_documents(2, 30));
    store.finish();
    manifest_ = store.manifest;
  }
  OpenTokens open(const std::vector<std::string>& paths, Stream stream = Stream::train,
                  int64_t vocab_size = 257) const {
    return open_tokens(paths, stream, config_, vocab_size);
  }
  std::string refusal(const std::vector<std::string>& paths, Stream stream = Stream::train,
                      int64_t vocab_size = 257) const {
    return data_error([&] { open(paths, stream, vocab_size); });
  }
  std::string deck_refusal(const std::vector<std::string>& paths) const {
    return error_of<DeckError>([&] { open(paths); });
  }

  TempFolder folder_;
  std::string store_ = folder_.at("store");
  StoreManifest manifest_;
  DataConfig config_;
};

TEST_F(OpenTokensTest, AStoreByStream) {
  for (const VerifyData verify : {VerifyData::full, VerifyData::header}) {
    config_.verify = verify;
    for (const Stream stream : {Stream::train, Stream::validation}) {
      const OpenTokens open_store = open({store_ + "/"}, stream);
      ASSERT_EQ(open_store.sources.size(), 2U);
      EXPECT_EQ(open_store.sources[0].name, "wiki");
      EXPECT_EQ(open_store.sources[1].language, "de");
      EXPECT_EQ(open_store.sources[1].weight, 2.0);
      EXPECT_EQ(open_store.sources[0].parts.size(), 2U);
      EXPECT_EQ(open_store.sources[1].tokens(), count_shards(manifest_, stream, 1).tokens);
      EXPECT_EQ(open_store.tokenizer, "bytes");
      EXPECT_EQ(open_store.vocab_size, 257);
      EXPECT_EQ(open_store.end_of_document, 256);
      EXPECT_EQ(open_store.tokenizer_folder, tokenizer_folder(store_ + "/"));
    }
  }
}

TEST_F(OpenTokensTest, AStoreWithoutHeldOutPart) {
  StoreBuilder none(folder_.at("none"), 0.0);
  none.add("a", "", some_documents(3, 5));
  none.finish();
  EXPECT_CONTAINS(refusal({none.path()}, Stream::validation), "has no held-out documents");
  EXPECT_EQ(refusal({none.path()}), "no exception");
  EXPECT_CONTAINS(refusal({folder_.at(".")}), "it has no manifest.json");
  EXPECT_CONTAINS(deck_refusal({}), "data.train names no file");
}

TEST_F(OpenTokensTest, HeldOutTextIsNotTrainedOn) {
  std::string shard;
  for (const ShardRecord& record : manifest_.shards) {
    if (record.stream == Stream::validation) shard = store_ + "/" + record.file;
  }
  EXPECT_CONTAINS(refusal({shard}), "held-out text must not be trained on");
  EXPECT_EQ(refusal({shard}, Stream::validation), "no exception");
  std::filesystem::create_symlink(shard, folder_.at("link.tok"));
  EXPECT_CONTAINS(refusal({folder_.at("link.tok")}), "held-out text must not be trained on");
  write_documents(folder_.at("x.validation.tok"), {"a"});
  EXPECT_EQ(refusal({folder_.at("x.validation.tok")}), "no exception");  // a name is no proof
  write_documents(folder_.at("x.train.tok"), {"b"});
  EXPECT_CONTAINS(refusal({folder_.at("x.validation.tok")}), "is the held-out part of");
}

TEST_F(OpenTokensTest, AShardAloneHasItsIndex) {
  const OpenTokens tokens = open({store_ + "/" + manifest_.shards[0].file});
  ASSERT_EQ(tokens.sources.size(), 1U);
  EXPECT_EQ(tokens.sources[0].name, "files");
  EXPECT_TRUE(tokens.sources[0].parts[0]->has_index());
  // An index of Megatron's that has the name by chance belongs to others.
  write_documents(folder_.at("m.tok"), {"a"});
  folder_.write("m.idx", testing::MegatronParts::golden(8, 2).bytes());
  EXPECT_FALSE(open({folder_.at("m.tok")}).sources[0].parts[0]->has_index());
  folder_.write("m.idx", "something else");
  EXPECT_CONTAINS(refusal({folder_.at("m.tok")}), "not the index of a shard");
  EXPECT_CONTAINS(refusal({store_ + "/train/wiki-00000.idx"}), "name the .tok beside it");
}

TEST_F(OpenTokensTest, MixedListsKeepNames) {
  StoreBuilder other(folder_.at("other"));
  other.add("wiki", "fr", some_documents(4, 30));
  other.finish();
  write_documents(folder_.at("a.tok"), {"plain"});
  write_documents(folder_.at("b.tok"), {"plain too"});
  const OpenTokens tokens = open({folder_.at("a.tok"), store_, folder_.at("b.tok"), other.path()});
  std::vector<std::string> names;
  for (const TokenSource& source : tokens.sources) names.push_back(source.name);
  EXPECT_EQ(names, (std::vector<std::string>{"files", "store/wiki", "books", "other/wiki"}));
  EXPECT_EQ(tokens.sources[0].parts.size(), 2U);
  EXPECT_EQ(tokens.sources[0].weight, 0.0);
  EXPECT_CONTAINS(deck_refusal({store_, store_}), "two sources are named store/wiki");
}

TEST_F(OpenTokensTest, ForeignFilesNeedAnEnd) {
  const std::string path = folder_.write("train.bin", ids_as<uint16_t>({1, 2, 256, 3}));
  EXPECT_CONTAINS(deck_refusal({path}), "data.end_of_document is not set");
  EXPECT_CONTAINS(deck_refusal({path}), "data.document_mask = false");
  config_.end_of_document = 300;
  EXPECT_CONTAINS(deck_refusal({path}), "is not below model.vocab_size = 257");
  config_.end_of_document = 256;
  const OpenTokens tokens = open({path});
  EXPECT_EQ(tokens.end_of_document, 256);
  EXPECT_EQ(tokens.vocab_size, 0);
  EXPECT_EQ(tokens.tokenizer, "");
  EXPECT_EQ(tokens.tokenizer_folder, "");
  config_.end_of_document = -1;
  config_.document_mask = false;
  EXPECT_EQ(open({path}).end_of_document, -1);
  EXPECT_CONTAINS(refusal({path}, Stream::train, 200), "token 2 has id 256");
}

TEST_F(OpenTokensTest, AllMustAgree) {
  const std::string path = folder_.write("train.bin", ids_as<uint16_t>({1, 2, 100, 3}));
  config_.end_of_document = 100;
  EXPECT_CONTAINS(deck_refusal({store_, path}), "data.end_of_document = 100, but");
  config_.end_of_document = 256;
  EXPECT_EQ(open({path, store_}).tokenizer, "bytes");
  EXPECT_CONTAINS(refusal({store_}, Stream::train, 256), "has 257 ids, but model.vocab_size = 256");
  EXPECT_EQ(refusal({store_}, Stream::train, 0), "no exception");
  const OpenTokens train = open({store_});
  OpenTokens validation = open({store_}, Stream::validation);
  EXPECT_NO_THROW(require_same_tokenizer(train, validation));
  validation.tokenizer = "other";
  EXPECT_CONTAINS(data_error([&] { require_same_tokenizer(train, validation); }),
                  "build both with the same tokenizer");
}

TEST_F(OpenTokensTest, FormatsByContent) {
  folder_.write("m.bin", ids_as<uint16_t>(testing::kMegatronIds));
  folder_.write("m.idx", testing::MegatronParts::golden(8, 2).bytes());
  folder_.write("l.bin", testing::llmc_bytes<uint16_t>(20240520, 1, {9, 1, 2}));
  config_.end_of_document = 9;
  const OpenTokens tokens =
      open({folder_.at("m"), folder_.at("m.idx"), folder_.at("m.bin"), folder_.at("l.bin")});
  ASSERT_EQ(tokens.sources.size(), 1U);
  EXPECT_EQ(tokens.sources[0].tokens(), 7 * 3 + 3);
  folder_.write("e.bin", testing::llmc_bytes<uint16_t>(20240522, 1, {9, 1, 2}));
  EXPECT_CONTAINS(refusal({folder_.at("e.bin")}), "holds questions");
  EXPECT_CONTAINS(refusal({folder_.write("a.txt", "text")}), "no format that is known");
  EXPECT_CONTAINS(refusal({folder_.at("missing")}), "cannot be opened");
}

TEST_F(OpenTokensTest, DamageInAStore) {
  const std::string shard = store_ + "/" + manifest_.shards[0].file;
  std::string bytes = testing::read_bytes(shard);
  // Another letter, and every checksum of the file itself made right again.
  bytes[128] = static_cast<char>(bytes[128] ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  EXPECT_CONTAINS(refusal({store_}), "is not the file that the manifest lists");
  config_.verify = VerifyData::header;
  EXPECT_EQ(refusal({store_}), "no exception");
  testing::write_shard(shard, some_documents(9, 3));
  EXPECT_CONTAINS(refusal({store_}), "but the manifest says");
  std::filesystem::remove(shard);
  EXPECT_CONTAINS(refusal({store_}), "cannot be opened");
}

}  // namespace
}  // namespace espalier
