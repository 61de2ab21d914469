// SPDX-License-Identifier: Apache-2.0
// Files, folders and patterns as lists of files, and what is no input.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "corpus/source/path_pattern.hpp"
#include "source_files.hpp"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::data_error;
using testing::gzip;
using testing::TempFolder;
using testing::zstd;
using Names = std::vector<std::string>;

SourceConfig source_of(const Names& paths) {
  SourceConfig source;
  source.name = "books";
  source.paths = paths;
  return source;
}

// Paths without the folder's own.
Names list(const TempFolder& folder, const Names& paths) {
  Names names;
  for (const std::string& path : paths) names.push_back(folder.at(path));
  const std::vector<InputFile> files = list_inputs(source_of(names));
  names.clear();
  for (const InputFile& file : files) {
    names.push_back(fs::path(file.path).lexically_relative(folder.at("")).string());
  }
  return names;
}

void fill(const TempFolder& folder) {
  fs::create_directories(folder.at("d/sub/deep"));
  fs::create_directories(folder.at("d/.git"));
  for (const char* name : {"d/b.txt", "d/B.txt", "d/a.jsonl", "d/.hidden", "d/.git/config",
                           "d/sub/c.txt", "d/sub/deep/d.txt", "d/\xC3\xA9.txt", "e[1].txt"}) {
    folder.write(name, "text");
  }
}

TEST(InputList, FoldersAreSearchedInTheOrderOfBytes) {
  const TempFolder folder;
  fill(folder);
  const Names all = {"d/B.txt",     "d/a.jsonl",        "d/b.txt",
                     "d/sub/c.txt", "d/sub/deep/d.txt", "d/\xC3\xA9.txt"};
  EXPECT_EQ(list(folder, {"d"}), all);
  EXPECT_EQ(list(folder, {"d/"}), all);
  EXPECT_EQ(list(folder, {"d/**"}), all);
  EXPECT_EQ(list(folder, {"d/sub", "d"}).size(), all.size()) << "each once";
  EXPECT_EQ(list(folder, {"d/sub", "d"})[0], "d/sub/c.txt") << "in the order of the paths";
  EXPECT_EQ(list(folder, {"d/b.txt", "d/../d/b.txt", "d//b.txt"}), Names{"d/b.txt"});
  EXPECT_EQ(list(folder, {"d/.hidden"}), Names{"d/.hidden"}) << "named";
}

TEST(InputList, Patterns) {
  const TempFolder folder;
  fill(folder);
  EXPECT_EQ(list(folder, {"d/*.txt"}), (Names{"d/B.txt", "d/b.txt", "d/\xC3\xA9.txt"}));
  EXPECT_EQ(list(folder, {"d/[ab].*"}), (Names{"d/a.jsonl", "d/b.txt"}));
  EXPECT_EQ(list(folder, {"*/sub/?.txt"}), Names{"d/sub/c.txt"});
  EXPECT_EQ(list(folder, {"d/**/d.txt"}), Names{"d/sub/deep/d.txt"});
  EXPECT_EQ(list(folder, {"**/*.jsonl"}), Names{"d/a.jsonl"});
  EXPECT_EQ(list(folder, {"d/**/*.txt"}).size(), 5u);
  EXPECT_EQ(list(folder, {"e[1].txt"}), Names{"e[1].txt"}) << "a file of that very name";
  EXPECT_EQ(list(folder, {"d/.h*"}), Names{"d/.hidden"});
  EXPECT_CONTAINS(data_error([&] { list(folder, {"d/*.gz"}); }), "d/*.gz: matches no file");
}

TEST(InputList, LinksAndLoops) {
  const TempFolder folder;
  fill(folder);
  fs::create_directory_symlink(folder.at("d"), folder.at("d/sub/loop"));
  fs::create_directory_symlink("..", folder.at("d/sub/deep/up"));
  fs::create_symlink(folder.at("d/b.txt"), folder.at("d/z.txt"));
  EXPECT_EQ(list(folder, {"d"}).size(), 6u);
  EXPECT_EQ(list(folder, {"d/**/*.txt"}).size(), 5u);
  fs::create_symlink("nowhere", folder.at("d/dangling"));
  EXPECT_CONTAINS(data_error([&] { list(folder, {"d"}); }), "d/dangling: is a link that leads now");
}

TEST(InputList, CompressionAndFormat) {
  const TempFolder folder;
  const auto look = [&](const std::string& name, const std::string& bytes) {
    const auto files = list_inputs(source_of({folder.write(name, bytes)}));
    EXPECT_EQ(files[0].bytes, static_cast<int64_t>(bytes.size()));
    return std::make_pair(files[0].format, files[0].compression);
  };
  using F = SourceFormat;
  using C = Compression;
  EXPECT_EQ(look("a.txt", "x"), std::make_pair(F::text, C::none));
  EXPECT_EQ(look("a", gzip("x")), std::make_pair(F::text, C::gzip));
  EXPECT_EQ(look("a.jsonl.zst", zstd("x")), std::make_pair(F::jsonl, C::zstd));
  EXPECT_EQ(look("a.NDJSON.gz", "x"), std::make_pair(F::jsonl, C::none));
  EXPECT_EQ(look("a.html", "x"), std::make_pair(F::html, C::none));
  EXPECT_EQ(look("html.gz", ""), std::make_pair(F::text, C::none));
  SourceConfig source = source_of({folder.at("a.html")});
  source.format = F::text;
  EXPECT_EQ(list_inputs(source)[0].format, F::text);
}

TEST(InputList, WhatIsNoTextIsRefusedAllAtOnce) {
  const TempFolder folder;
  fs::create_directories(folder.at("store/tokenizer"));
  fs::create_directories(folder.at("none/.git"));
  folder.write("store/manifest.json", "{}");
  ::mkfifo(folder.at("pipe").c_str(), 0600);
  testing::write_documents(folder.at("a.tok"), {"text"});
  folder.write("a.xz", std::string("\xFD"
                                   "7zXZ\0",
                                   6));
  folder.write("a.zip", "PK\x03\x04...");
  const std::string message = data_error([&] {
    list_inputs(
        source_of({folder.at("missing"), folder.at("store"), folder.at("none"), folder.at("pipe"),
                   folder.at("a.tok"), folder.at("a.xz"), folder.at("a.zip"), "/dev/null"}));
  });
  EXPECT_CONTAINS(message, "source books: the inputs cannot be read:");
  EXPECT_CONTAINS(message, folder.at("missing") + ": does not exist; check the path");
  EXPECT_CONTAINS(message, folder.at("store") + ": is a token store, not text");
  EXPECT_CONTAINS(message, folder.at("none") + ": is a folder without a file");
  EXPECT_CONTAINS(message, folder.at("pipe") + ": is a pipe, socket or device");
  EXPECT_CONTAINS(message, folder.at("a.tok") + ": is a token file, not text");
  EXPECT_CONTAINS(message, folder.at("a.xz") + ": is xz data; compress the text with gzip or zstd");
  EXPECT_CONTAINS(message, folder.at("a.zip") + ": is a zip archive");
  EXPECT_CONTAINS(message, "/dev/null: is a pipe, socket or device");
  EXPECT_CONTAINS(data_error([&] { list_inputs(source_of({})); }), "has no paths");
}

}  // namespace
}  // namespace espalier
