// SPDX-License-Identifier: Apache-2.0
// Key files: the same bytes every time, damage of every kind, memory by ranges.
#include "corpus/clean/key_file.hpp"

#include <gtest/gtest.h>

#include "key_files.hpp"
#include "near_text.hpp"

namespace espalier {
namespace {

using namespace testing;

Pieces some_documents(uint64_t seed, uint64_t count) {
  Pieces pieces(1);
  for (uint64_t d = 0; d < count; ++d) pieces[0].push_back(words_text(seed + d, 12));
  return pieces;
}

TEST(KeyFile, IsAFunctionOfTheDocuments) {
  for (const Deduplication kind : {Deduplication::exact, Deduplication::near}) {
    const TempFolder folder, other;
    const CleanConfig config = dedup_config(kind);
    const std::string a = read_bytes(write_keys(folder, config, some_documents(1, 700))[0]);
    EXPECT_EQ(a, read_bytes(write_keys(other, config, some_documents(1, 700))[0]));
    EXPECT_EQ(folder.names().size(), 1u) << "no part is left";
    const KeyHeader header = read_key_header(folder.at("piece-0.keys"));
    EXPECT_EQ(header.documents, 700);
    EXPECT_EQ(header.near_records, kind == Deduplication::near ? 700 * 18 : 0);
    EXPECT_EQ(header.file_bytes(), static_cast<int64_t>(a.size()));
  }
}

TEST(KeyFile, UnfinishedOnesLeaveNothing) {
  const TempFolder folder;
  {
    KeyWriter writer(dedup_config(Deduplication::near), folder.at("a.keys"));
    writer.add("a document that is long enough");
  }
  EXPECT_TRUE(folder.names().empty());
  EXPECT_CONTAINS(data_error([&] {
                    KeyWriter writer(dedup_config(Deduplication::near), folder.at("no/a.keys"));
                  }),
                  "no/a.keys");
  EXPECT_THROW(KeyWriter(dedup_config(Deduplication::near, 0.001), folder.at("a.keys")), DeckError);
}

TEST(KeyFile, EveryDamagedByteIsNamed) {
  for (const Deduplication kind : {Deduplication::exact, Deduplication::near}) {
    const TempFolder folder;
    const CleanConfig config = dedup_config(kind);
    const std::string path = write_keys(folder, config, some_documents(1, 5))[0];
    const std::string sound = read_bytes(path);
    for (size_t at = 0; at < sound.size(); ++at) {
      std::string damaged = sound;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      folder.write("piece-0.keys", damaged);
      // Whatever the number of ranges: one of them refuses.
      const std::string message = data_error([&] {
        for (int64_t range = 0; range < 3; ++range) find_duplicates(config, {path}, range, 3);
      });
      EXPECT_CONTAINS(message, "piece-0.keys: ");
      EXPECT_CONTAINS(message, "start the build again");
    }
    for (size_t size = 0; size < sound.size(); size += size < 140 ? 1 : 37) {
      folder.write("piece-0.keys", sound.substr(0, size));
      EXPECT_CONTAINS(data_error([&] { find_duplicates(config, {path}, 0, 1); }), "piece-0.keys: ");
      EXPECT_CONTAINS(data_error([&] { count_key_ranges({path}, 100); }), "piece-0.keys: ");
    }
    folder.write("piece-0.keys", sound + "x");
    EXPECT_CONTAINS(data_error([&] { find_duplicates(config, {path}, 0, 1); }), "bytes, but");
    folder.write("piece-0.keys", sound);
    EXPECT_TRUE(find_duplicates(config, {path}, 0, 1).empty());
  }
}

TEST(KeyFile, DamageInLargeFilesIsFoundByOneOfTheRanges) {
  const TempFolder folder;
  const CleanConfig config = dedup_config(Deduplication::near);
  const std::string path = write_keys(folder, config, some_documents(1, 3000))[0];
  const std::string sound = read_bytes(path);
  for (uint64_t i = 0; i < 40; ++i) {
    std::string damaged = sound;
    const uint64_t bits = random_bits(4, 4, i);
    damaged[bits % sound.size()] ^= static_cast<char>(1 + (bits >> 40) % 255);
    folder.write("piece-0.keys", damaged);
    EXPECT_CONTAINS(data_error([&] {
                      for (int64_t r = 0; r < 7; ++r) find_duplicates(config, {path}, r, 7);
                    }),
                    "piece-0.keys: ");
  }
}

TEST(KeyFile, MissingForeignAndOtherSettings) {
  const TempFolder folder;
  const CleanConfig config = dedup_config(Deduplication::near);
  const std::string path = write_keys(folder, config, some_documents(1, 5))[0];
  const auto error_of = [&](const CleanConfig& asked, const std::string& name) {
    return data_error([&] { find_duplicates(asked, {"", name}, 0, 1); });
  };
  EXPECT_CONTAINS(error_of(config, folder.at("none.keys")), "none.keys: no such file");
  const std::string foreign = folder.write("text.keys", std::string(300, 'x'));
  EXPECT_CONTAINS(error_of(config, foreign), "text.keys: is not a file of keys");
  EXPECT_CONTAINS(error_of(dedup_config(Deduplication::exact), path), "other settings");
  EXPECT_CONTAINS(error_of(dedup_config(Deduplication::near, 0.81), path), "similarity 0.8");
  CleanConfig longer = config;
  longer.shingle = 9;
  EXPECT_CONTAINS(error_of(longer, path), "shingle 8");
}

TEST(KeyFile, RangesFollowFromTheFilesAndTheMemory) {
  const TempFolder folder;
  const CleanConfig config = dedup_config(Deduplication::exact);
  std::vector<std::string> files = write_keys(folder, config, some_documents(1, 1000));
  EXPECT_EQ(count_key_ranges({}, 1), 1);
  EXPECT_EQ(count_key_ranges(files, int64_t{1} << 40), 1);
  const int64_t ranges = count_key_ranges(files, 7200);
  EXPECT_EQ(ranges, 10);
  files.push_back("");
  EXPECT_EQ(count_key_ranges(files, 7200), ranges);
  const KeyFile file(files[0], config);
  for (int64_t range = 0; range < ranges; ++range) {
    const Span span = file.exact_range(range, ranges);
    EXPECT_NEAR(static_cast<double>(span.end - span.begin), 100.0, 50.0);  // five deviations
  }
}

TEST(KeyFile, RangesPartTheKeysInOrder) {
  EXPECT_EQ(range_of_key(0, 5), 0);
  EXPECT_EQ(range_of_key(~uint64_t{0}, 5), 4);
  EXPECT_EQ(range_of_key(~uint64_t{0}, 1), 0);
  int64_t before = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const int64_t range = range_of_key(i * (~uint64_t{0} / 999), 17);
    EXPECT_GE(range, before);
    before = range;
  }
  EXPECT_EQ(before, 16);
}

}  // namespace
}  // namespace espalier
