// SPDX-License-Identifier: Apache-2.0
// Real text in several scripts through the whole chain and back: Debian's own reference book.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <cstdio>
#include <map>

#include "corpus/bigram_baseline.hpp"
#include "corpus/build/store_builder.hpp"
#include "corpus/source/text_reader.hpp"
#include "corpus/store/store_reader.hpp"
#include "corpus/token_file.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "corpus/tokenizer/train_sentencepiece.hpp"
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

// Manual pages of a language, about `bytes` of them, in the order of their names.
std::string manual_pages(const std::string& language, size_t bytes) {
  std::vector<std::string> paths;
  std::error_code code;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator("/usr/share/man/" + language, code))
    if (entry.is_regular_file() && entry.path().extension() == ".gz")
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const std::string& path : paths)
    if (all.size() < bytes) all += read_all(path);
  return all;
}

// A store of some books, a source each, built by this process.
StoreManifest build_books(const std::vector<std::string>& paths, const std::string& output,
                          int64_t document_bytes, double held_out) {
  BuildRequest request;
  request.config.build.output = output;
  request.config.build.held_out = held_out;
  for (const std::string& path : paths) {
    SourceConfig source;
    source.name = fmt::format("book{}", request.config.sources.size());
    source.paths = {path};
    source.documents = DocumentCut::size;
    source.document_bytes = document_bytes;
    request.config.sources.push_back(source);
  }
  Alone team;
  return build_store(request, ByteTokenizer(), team).manifest;
}

TEST(RealText, EveryLanguageGoesThereAndBack) {
  const ByteTokenizer tokenizer;
  for (const std::string& path : book_files()) {
    const TempFolder folder;
    const std::string text = read_all(path), store = folder.at("store");
    ASSERT_GT(text.size(), 100000u) << path;
    EXPECT_EQ(count_broken_utf8(text), 0) << path;
    const StoreManifest manifest = build_books({path}, store, 2000, 0.0);
    const StoreCounts counts = count_shards(manifest, Stream::train);
    std::string back;
    for (int64_t i = 0; i < counts.documents; ++i) {
      const std::string document = tokenizer.decode(read_document(store, manifest, i).tokens);
      EXPECT_EQ(count_broken_utf8(document), 0) << "a cut inside a character";
      back += document;
    }
    EXPECT_TRUE(back == text) << path;
    EXPECT_EQ(counts.tokens, static_cast<int64_t>(text.size()) + counts.documents);
  }
}

TEST(RealText, BigramsBeatUnigramsOnHeldOutText) {
  const TempFolder folder;
  const std::string store = folder.at("books");
  build_books(book_files(), store, 4096, 0.1);
  const BaselineReport r = score_baseline({{store}, {store}});
  std::printf("unigram %.4f, bigram %.4f nats/token\n", r.unigram.nats_per_token,
              r.bigram.nats_per_token);
  EXPECT_LT(r.bigram.nats_per_token, r.unigram.nats_per_token - 0.5);
  EXPECT_GT(r.bigram.nats_per_token, 1.0);
  EXPECT_LT(r.unigram.nats_per_token, std::log(257.0));
}

// A sentencepiece model of the books, half a KiB of each 64 KiB.
std::string train_on_books(SubwordModel kind) {
  std::vector<std::string> documents;
  for (const std::string& path : book_files()) {
    const std::string text = read_all(path);
    for (size_t at = 0; at < text.size(); at += size_t{1} << 16) {
      documents.push_back(text.substr(at, 512));
    }
  }
  TrainTokenizerConfig config;
  config.model = kind;
  config.vocab_size = 1500;
  size_t next = 0;
  return train_sentencepiece(config, [&](std::string& text) {
    if (next == documents.size()) return false;
    text = documents[next++];
    return true;
  });
}

TEST(RealText, EveryTokenizerGivesEveryLanguageBack) {
  const TempFolder folder;
  const std::string references = ESPALIER_REFERENCES;
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* name : {"/gpt2.json", "/llama2.json"}) {
    TokenizerConfig config;
    config.kind = TokenizerKind::huggingface;
    config.path = references + name;
    tokenizers.push_back(make_tokenizer(config));
  }
  for (const SubwordModel kind : {SubwordModel::bpe, SubwordModel::unigram}) {
    TokenizerConfig config;
    config.kind = TokenizerKind::sentencepiece;
    config.path = folder.write("books.model", train_on_books(kind));
    tokenizers.push_back(make_tokenizer(config));
    EXPECT_TRUE(tokenizers.back()->is_lossless());
  }
  std::map<std::string, std::string> texts;
  for (const std::string& path : book_files()) texts[path] = read_all(path);
  for (const char* language : {"ru", "el", "uk"}) texts[language] = manual_pages(language, 250000);
  for (auto& [name, text] : texts) {
    text.resize(utf8_boundary(text, std::min<size_t>(text.size(), 250000)));
    for (const auto& tokenizer : tokenizers) {
      const std::vector<int32_t> tokens = tokenizer->encode(text);
      EXPECT_TRUE(tokenizer->decode(tokens) == text) << tokenizer->name() << " on " << name;
      // The models have hardly seen the alphabets of the manual pages.
      if (name[0] == '/') {
        EXPECT_LT(tokens.size(), text.size()) << tokenizer->name() << " on " << name;
      }
    }
  }
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
