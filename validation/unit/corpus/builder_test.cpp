// SPDX-License-Identifier: Apache-2.0
// From text files to token files: nothing lost, held out by content, replaced only when whole.
#include "corpus/corpus_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "corpus/text_reader.hpp"
#include "corpus/token_file.hpp"
#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::gzip;
using testing::random_text;
using testing::read_bytes;
using testing::TempFolder;

const ByteTokenizer kTokenizer;

std::vector<std::string> documents_of(const std::string& path) {
  const TokenFile file(path, VerifyData::full);
  std::vector<std::string> documents;
  for (int64_t i = 0; i < file.header().documents; ++i) {
    const DocumentRange range = find_document(file, i);
    std::vector<int32_t> tokens(static_cast<size_t>(range.end - range.begin));
    file.read(range.begin, range.end - range.begin, tokens.data());
    documents.push_back(kTokenizer.decode(tokens));
  }
  return documents;
}

std::multiset<std::string> sorted(const std::vector<std::string>& documents) {
  return {documents.begin(), documents.end()};
}

BuildRequest many_files(const TempFolder& folder, int count) {
  BuildRequest request;
  request.prefix = folder.at("out");
  for (int i = 0; i < count; ++i) {
    const std::string text = random_text(static_cast<uint64_t>(i), static_cast<size_t>(50 + i));
    request.files.push_back(folder.write(fmt::format("{}.txt", i), i % 2 == 0 ? text : gzip(text)));
  }
  return request;
}

TEST(Builder, KeepsEveryDocumentInOrder) {
  const TempFolder folder;
  BuildRequest request = many_files(folder, 20);
  const BuildReport report = build_corpus(request, kTokenizer);
  const auto documents = documents_of(train_path(request.prefix));
  ASSERT_EQ(documents.size(), 20u);
  int64_t bytes = 0;
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(documents[i], random_text(i, 50 + i));
    EXPECT_EQ(report.inputs[i].gzip, i % 2 == 1);
    EXPECT_EQ(report.inputs[i].bytes, static_cast<int64_t>(50 + i));
    EXPECT_EQ(report.inputs[i].tokens, static_cast<int64_t>(51 + i));
    bytes += report.inputs[i].bytes;
  }
  ASSERT_EQ(report.outputs.size(), 1u);
  EXPECT_EQ(report.outputs[0].documents, 20);
  EXPECT_EQ(report.outputs[0].text_bytes, bytes);
  EXPECT_EQ(report.outputs[0].tokens, bytes + 20);
  EXPECT_FALSE(std::filesystem::exists(validation_path(request.prefix)));
}

TEST(Builder, HeldOutDoesNotDependOnOrderNameOrPacking) {
  const TempFolder folder;
  BuildRequest request = many_files(folder, 200);
  request.held_out = 0.25;
  const BuildReport report = build_corpus(request, kTokenizer);
  const auto train = documents_of(train_path(request.prefix));
  const auto validation = documents_of(validation_path(request.prefix));
  EXPECT_EQ(train.size() + validation.size(), 200u);
  // Binomial: mean 50, deviation 6.1.
  EXPECT_NEAR(static_cast<double>(validation.size()), 50.0, 5 * 6.1);
  EXPECT_EQ(report.outputs[1].documents, static_cast<int64_t>(validation.size()));

  BuildRequest other = request;
  other.prefix = folder.at("other");
  std::reverse(other.files.begin(), other.files.end());
  for (auto& path : other.files) {  // the same texts under other names, packed the other way
    TextReader reader(path);
    std::string text(1000, '\0');
    text.resize(reader.read(text.data(), text.size()));
    path = folder.write(fmt::format("renamed-{:x}", hash_bytes(text.data(), text.size())),
                        reader.is_gzip() ? text : gzip(text));
  }
  build_corpus(other, kTokenizer);
  EXPECT_EQ(sorted(documents_of(validation_path(other.prefix))), sorted(validation));
  EXPECT_EQ(sorted(documents_of(train_path(other.prefix))), sorted(train));

  other.seed = 2;  // the control: another seed holds out others
  build_corpus(other, kTokenizer);
  EXPECT_NE(sorted(documents_of(validation_path(other.prefix))), sorted(validation));
}

TEST(Builder, MoreHeldOutKeepsWhatWasHeldOut) {
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(static_cast<uint64_t>(i), 30);
    EXPECT_FALSE(is_held_out(text, 0.0, 1));
    EXPECT_LE(is_held_out(text, 0.1, 1), is_held_out(text, 0.3, 1));
  }
}

TEST(Builder, CutsLongFiles) {
  const TempFolder folder;
  std::string text;
  for (uint64_t i = 0; i < 300; ++i) text += random_text(i, 40 + i % 50) + "\n\n";
  BuildRequest request;
  request.prefix = folder.at("deep/er/out");
  request.files = {folder.write("a", text)};
  request.document_bytes = 500;
  request.held_out = 0.2;
  build_corpus(request, kTokenizer);
  size_t bytes = 0;
  for (const auto& path : {train_path(request.prefix), validation_path(request.prefix)}) {
    for (const auto& document : documents_of(path)) {
      EXPECT_LE(document.size(), 500u);
      EXPECT_NE(text.find(document), std::string::npos);
      EXPECT_EQ(document.substr(document.size() - 2), "\n\n");
      bytes += document.size();
    }
  }
  EXPECT_EQ(bytes, text.size());
}

TEST(Builder, CountsEmptyFilesAndBrokenText) {
  const TempFolder folder;
  BuildRequest request;
  request.prefix = folder.at("out");
  request.files = {folder.write("empty", ""),
                   folder.write("latin1",
                                "caf\xE9 \xFC"
                                "ber"),
                   folder.write("good", "\xC3\xA9")};
  const BuildReport report = build_corpus(request, kTokenizer);
  EXPECT_EQ(report.inputs[0].documents, 0);
  EXPECT_EQ(report.inputs[1].broken_utf8, 2);
  EXPECT_EQ(report.inputs[2].broken_utf8, 0);
  EXPECT_EQ(documents_of(train_path(request.prefix)), (std::vector<std::string>{"caf\xE9 \xFC"
                                                                                "ber",
                                                                                "\xC3\xA9"}));
}

TEST(Builder, AnErrorChangesNothing) {
  const TempFolder folder;
  BuildRequest request = many_files(folder, 10);
  request.held_out = 0.3;
  build_corpus(request, kTokenizer);
  const std::string train = read_bytes(train_path(request.prefix));
  const std::string validation = read_bytes(validation_path(request.prefix));
  const size_t entries = folder.names().size();
  const std::string packed = gzip(random_text(99, 3000));
  request.files.push_back(folder.write("cut.gz", packed.substr(0, packed.size() / 2)));
  EXPECT_CONTAINS(data_error([&] { build_corpus(request, kTokenizer); }), "cut.gz: gzip data ends");
  EXPECT_EQ(read_bytes(train_path(request.prefix)), train);
  EXPECT_EQ(read_bytes(validation_path(request.prefix)), validation);
  EXPECT_EQ(folder.names().size(), entries + 1) << "leftovers";
  std::filesystem::remove(folder.at("cut.gz"));
  request.files.back() = train_path(request.prefix);
  EXPECT_CONTAINS(data_error([&] { build_corpus(request, kTokenizer); }),
                  "is a token file, not text");
}

TEST(Builder, RefusesWhatMakesNoSense) {
  const TempFolder folder;
  BuildRequest request = many_files(folder, 2);
  for (const double fraction : {-0.1, 1.0, 1.5, std::nan("")}) {
    BuildRequest bad = request;
    bad.held_out = fraction;
    EXPECT_THROW(build_corpus(bad, kTokenizer), DeckError) << fraction;
  }
  for (const int64_t size : {-1, 1, 63}) {
    BuildRequest bad = request;
    bad.document_bytes = size;
    EXPECT_THROW(build_corpus(bad, kTokenizer), DeckError) << size;
  }
  BuildRequest none = request;
  none.files.clear();
  EXPECT_THROW(build_corpus(none, kTokenizer), DeckError);
  none.files = {folder.write("empty", "")};
  EXPECT_CONTAINS(data_error([&] { build_corpus(none, kTokenizer); }), "no document fell to train");
  BuildRequest rare = request;
  rare.held_out = 1e-9;
  EXPECT_CONTAINS(data_error([&] { build_corpus(rare, kTokenizer); }),
                  "no document fell to validation");
  folder.write("file", "x");
  rare.prefix = folder.at("file/out");
  EXPECT_CONTAINS(data_error([&] { build_corpus(rare, kTokenizer); }), "folder cannot be made");
}

}  // namespace
}  // namespace espalier
