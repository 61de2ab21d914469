// SPDX-License-Identifier: Apache-2.0
// Real text in several scripts through the whole chain and back: Debian's own reference book.
#include <gtest/gtest.h>

#include <cstdio>

#include "corpus/bigram_baseline.hpp"
#include "corpus/corpus_builder.hpp"
#include "corpus/text_reader.hpp"
#include "corpus/token_file.hpp"
#include "corpus/utf8.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::TempFolder;

std::vector<std::string> book_files() {
  std::vector<std::string> paths;
  std::error_code code;
  for (const auto& entry :
       std::filesystem::directory_iterator("/usr/share/debian-reference", code)) {
    const std::string path = entry.path().string();
    if (path.size() > 7 && path.compare(path.size() - 7, 7, ".txt.gz") == 0) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read_all(const std::string& path) {
  TextReader reader(path);
  std::string all, part(65536, '\0');
  while (const size_t got = reader.read(part.data(), part.size())) all.append(part, 0, got);
  return all;
}

TEST(RealText, EveryLanguageGoesThereAndBack) {
  const ByteTokenizer tokenizer;
  for (const std::string& path : book_files()) {
    const TempFolder folder;
    const std::string text = read_all(path);
    ASSERT_GT(text.size(), 100000u) << path;
    EXPECT_EQ(count_broken_utf8(text), 0) << path;
    BuildRequest request;
    request.prefix = folder.at("book");
    request.files = {path};
    request.document_bytes = 2000;
    const BuildReport report = build_corpus(request, tokenizer);
    EXPECT_TRUE(report.inputs[0].gzip);
    EXPECT_EQ(report.inputs[0].broken_utf8, 0) << "a cut inside a character";
    const TokenFile file(train_path(request.prefix), VerifyData::full);
    std::vector<int32_t> tokens(static_cast<size_t>(file.tokens()));
    file.read(0, file.tokens(), tokens.data());
    EXPECT_TRUE(tokenizer.decode(tokens) == text) << path;
    EXPECT_EQ(file.tokens(), static_cast<int64_t>(text.size()) + file.header().documents);
  }
}

TEST(RealText, BigramsBeatUnigramsOnHeldOutText) {
  const TempFolder folder;
  BuildRequest request;
  request.prefix = folder.at("books");
  request.files = book_files();
  request.document_bytes = 4096;
  request.held_out = 0.1;
  build_corpus(request, ByteTokenizer());
  const BaselineReport r =
      score_baseline({{train_path(request.prefix)}, {validation_path(request.prefix)}});
  std::printf("unigram %.4f, bigram %.4f nats/token\n", r.unigram.nats_per_token,
              r.bigram.nats_per_token);
  EXPECT_LT(r.bigram.nats_per_token, r.unigram.nats_per_token - 0.5);
  EXPECT_GT(r.bigram.nats_per_token, 1.0);
  EXPECT_LT(r.unigram.nats_per_token, std::log(257.0));
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  if (espalier::book_files().empty()) {
    std::puts(
        "skipped: no /usr/share/debian-reference/*.txt.gz; install debian-reference-en and "
        "others of debian-reference-*");
    return 77;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
