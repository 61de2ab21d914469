// SPDX-License-Identifier: Apache-2.0
// A billion tokens, in sparse files: opened and read at any place without time or memory that grows
// with them. Times are printed, not judged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "corpus/store/shard.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/store/store_reader.hpp"
#include "store_files.hpp"

namespace espalier {
namespace {

using testing::TempFolder;

constexpr int64_t kTokens = 1'000'000'000, kDocuments = 20'000'000;

// Of /proc/self/status, KiB. RssAnon is what the process itself takes; RssFile counts pages of
// mapped files too, which the kernel gives up for whatever needs them.
int64_t memory_kib(const std::string& field) {
  std::ifstream in("/proc/self/status");
  std::string word;
  int64_t value = -1;
  while (in >> word) {
    if (word == field + ":") in >> value;
  }
  return value;
}

// Two pieces of a file, at its begin and its end; between them a hole.
bool write_sparse(const std::string& path, const std::string& head, const std::string& tail,
                  int64_t size) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0666);
  const bool ok =
      fd >= 0 && ::ftruncate(fd, size) == 0 &&
      ::pwrite(fd, head.data(), head.size(), 0) == static_cast<ssize_t>(head.size()) &&
      ::pwrite(fd, tail.data(), tail.size(), size - static_cast<int64_t>(tail.size())) ==
          static_cast<ssize_t>(tail.size());
  if (fd >= 0) ::close(fd);
  return ok;
}

template <class Bytes>
std::string text_of(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// A store whose one shard has 10^9 tokens in 2 * 10^7 documents, the last of three tokens.
StoreManifest write_sparse_store(const std::string& path, bool& ok) {
  testing::StoreBuilder store(path, 0.0);
  TokenHeader header;
  header.vocab_size = 257;
  header.tokens = kTokens;
  header.documents = kDocuments;
  header.end_of_document = 256;
  header.tokenizer = "bytes";
  IndexHeader index;
  index.documents = kDocuments;
  index.tokens = kTokens;
  index.text_bytes = 2;
  index.token_header = token_header_checksum(header);
  std::string records;
  testing::put(records, IndexRecord{kTokens - 3, 1, 0});
  testing::put(records, IndexRecord{kTokens, 2, 2});
  const std::string file = path + "/train/big-00000.tok";
  ok = write_sparse(file, text_of(encode_token_header(header)),
                    testing::ids_as<uint16_t>({'h', 'i', 256}), 128 + 2 * kTokens) &&
       write_sparse(index_path(file), text_of(encode_index_header(index)), records,
                    80 + 24 * kDocuments);
  store.manifest.sources = {{"big", "", 1.0}};
  store.manifest.shards = {{"train/big-00000.tok", 0, Stream::train, kDocuments, kTokens, 2, 0, 0}};
  store.finish();
  return store.manifest;
}

TEST(StoreScale, ABillionTokensOpenAtOnce) {
  const TempFolder folder;
  bool ok = false;
  const StoreManifest manifest = write_sparse_store(folder.at("s"), ok);
  if (!ok) GTEST_SKIP() << "the file system has no sparse files so large";
  DataConfig config;
  config.verify = VerifyData::header;
  const int64_t own = memory_kib("RssAnon"), mapped = memory_kib("RssFile");
  const auto begin = std::chrono::steady_clock::now();
  const OpenTokens tokens = open_tokens({folder.at("s")}, Stream::train, config, 257);
  const auto opened = std::chrono::steady_clock::now();
  const TokenArray& array = *tokens.sources[0].parts[0];
  ASSERT_EQ(array.tokens(), kTokens);
  std::vector<int32_t> last(4);
  array.read(kTokens - 4, 4, last.data());
  const auto read = std::chrono::steady_clock::now();
  EXPECT_EQ(last, (std::vector<int32_t>{0, 'h', 'i', 256}));
  EXPECT_EQ(array.document_begin(kDocuments - 1), kTokens - 3);
  EXPECT_EQ(array.document_begin(kDocuments), kTokens);
  const StoreDocument document = read_document(folder.at("s"), manifest, kDocuments - 1);
  EXPECT_EQ(document.tokens, (std::vector<int32_t>{'h', 'i'}));
  EXPECT_EQ(document.hash, 2U);
  // Places all over the file: the pages of what is read, no more.
  for (uint64_t i = 0; i < 1000; ++i) {
    const auto at = static_cast<int64_t>(random_bits(1, 2, i) % (kTokens - 4));
    array.read(at, 4, last.data());
  }
  const auto us = [](auto a, auto b) {
    return std::chrono::duration_cast<std::chrono::microseconds>(b - a).count();
  };
  const int64_t grown = memory_kib("RssAnon") - own;
  fmt::print("open {} us, read at the end {} us; memory +{} KiB, pages of the files +{} KiB\n",
             us(begin, opened), us(opened, read), grown, memory_kib("RssFile") - mapped);
  EXPECT_LT(grown, 4 * 1024);  // of files of 2.5 GB
}

TEST(StoreScale, LongerForeignFilesThanInt32Counts) {
  const TempFolder folder;
  const int64_t tokens = int64_t{5} << 30;
  const std::string path = folder.at("train.bin");
  if (!write_sparse(path, "", testing::ids_as<uint16_t>({7, 8}), 2 * tokens)) {
    GTEST_SKIP() << "the file system has no sparse files so large";
  }
  DataConfig config;
  config.verify = VerifyData::header;
  config.end_of_document = 8;
  const OpenTokens open = open_tokens({path}, Stream::train, config, 100);
  EXPECT_EQ(open.sources[0].tokens(), tokens);
  std::vector<int32_t> last(3);
  open.sources[0].parts[0]->read(tokens - 3, 3, last.data());
  EXPECT_EQ(last, (std::vector<int32_t>{0, 7, 8}));
}

}  // namespace
}  // namespace espalier
