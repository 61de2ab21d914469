// SPDX-License-Identifier: Apache-2.0
// zstd as text, damage of both compressions, and parts of plain files.
#include <gtest/gtest.h>

#include "corpus/source/text_reader.hpp"
#include "source_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::gzip;
using testing::random_text;
using testing::skippable_frame;
using testing::TempFolder;
using testing::zstd;

std::string read_all(const std::string& path, size_t piece = 65536) {
  TextReader reader(path);
  std::string all, part(piece, '\0');
  while (const size_t got = reader.read(part.data(), piece)) all.append(part, 0, got);
  EXPECT_EQ(reader.disk_position(), reader.disk_bytes());
  return all;
}

TEST(Zstd, FramesSkippableFramesAndEmptyOnes) {
  const TempFolder folder;
  std::string packed, text;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string part = random_text(i, i * 50000, 3);
    packed += zstd(part);
    if (i % 3 == 1) packed += skippable_frame(random_text(i, i * 100));
    text += part;
  }
  EXPECT_EQ(read_all(folder.write("many", packed)), text);
  EXPECT_EQ(read_all(folder.write("many", packed), 13), text);
  EXPECT_EQ(read_all(folder.write("first", skippable_frame("index") + packed)), text);
  EXPECT_EQ(read_all(folder.write("empty", zstd(""))), "");
  EXPECT_EQ(TextReader(folder.at("many")).compression(), Compression::zstd);
  EXPECT_EQ(TextReader(folder.at("first")).compression(), Compression::zstd);
}

// A run of one letter: megabytes of output from a few bytes of input.
TEST(Zstd, MuchTextFromFewBytes) {
  const TempFolder folder;
  const std::string text(30000000, 'a');
  EXPECT_TRUE(read_all(folder.write("a", zstd(text)), 1000) == text);
  EXPECT_TRUE(read_all(folder.write("a", gzip(text)), 1000) == text);
}

TEST(Zstd, EveryTruncationIsFoundAndWhatCameBeforeIsHandedOut) {
  const TempFolder folder;
  const std::string text = random_text(3, 3000);
  // A small window: memory for it is taken each time.
  const std::string packed = zstd(text, 10) + zstd(text, 10);
  for (size_t size = 4; size < packed.size(); ++size) {
    if (size == packed.size() / 2) continue;  // one whole frame
    const std::string path = folder.write("cut", packed.substr(0, size));
    std::string found, part(64, '\0');
    const std::string message = data_error([&] {
      TextReader reader(path);
      while (const size_t got = reader.read(part.data(), part.size())) found.append(part, 0, got);
    });
    EXPECT_CONTAINS(message, "zstd data");
    EXPECT_CONTAINS(message, "truncated");
    EXPECT_CONTAINS(message, fmt::format("at byte {};", size));
    EXPECT_EQ(found, (text + text).substr(0, found.size()));
    if (size > packed.size() / 2) {
      EXPECT_GE(found.size(), text.size());
    }
  }
}

TEST(Zstd, FlippedBitsAreFound) {
  const TempFolder folder;
  const std::string text = random_text(5, 300);
  const std::string packed = zstd(text, 10);
  size_t harmless = 0;
  // Behind the magic number, the descriptor and the size of the window.
  for (size_t bit = 8 * 6; bit < 8 * packed.size(); ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::string found;
    const std::string message =
        data_error([&] { found = read_all(folder.write("damaged", damaged)); });
    if (message == "no exception") {
      EXPECT_EQ(found, text) << "bit " << bit;
      ++harmless;
    } else {
      EXPECT_CONTAINS(message, "zstd data");
    }
  }
  EXPECT_LE(harmless, 16u);  // what fills up the last bytes of bit streams
}

TEST(Zstd, BytesBehindAndWindowsTooLarge) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { read_all(folder.write("x", zstd("text") + "more")); }),
                  "followed by bytes that are not zstd");
  EXPECT_CONTAINS(data_error([&] { read_all(folder.write("x", zstd("text") + "\x28more")); }),
                  "is damaged");
  EXPECT_EQ(read_all(folder.write("x", zstd("text", 27))), "text");
  EXPECT_CONTAINS(data_error([&] { read_all(folder.write("x", zstd("text", 28))); }),
                  "asks for a window above 128 MiB");
}

// What zlib gives before it finds damage is used, however the reads fall.
TEST(Zstd, TextBeforeDamageIsHandedOutFirst) {
  const TempFolder folder;
  const std::string text = random_text(7, 400000);
  for (const std::string& whole : {gzip(text), zstd(text)}) {
    std::string packed = whole + whole;
    for (size_t i = 0; i < 64; ++i) packed[whole.size() + whole.size() / 2 + i] ^= 0x55;
    const std::string path = folder.write("damaged", packed);
    for (const size_t piece : {size_t{100}, size_t{4096}, size_t{1000000}}) {
      TextReader reader(path);
      std::string found, part(piece, '\0');
      const std::string message = data_error([&] {
        while (const size_t got = reader.read(part.data(), piece)) found.append(part, 0, got);
      });
      EXPECT_CONTAINS(message, "copy or download it again");
      EXPECT_GE(found.size(), text.size());
      EXPECT_EQ(found.compare(0, text.size(), text), 0);
      EXPECT_EQ(data_error([&] { reader.read(part.data(), piece); }), message) << "once more";
    }
  }
}

TEST(Zstd, PartsOfPlainFiles) {
  const TempFolder folder;
  const std::string text = random_text(9, 700000);
  const std::string path = folder.write("plain", text);
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 10}, {0, 2}, {5, 5}, {1, 700000}, {300000, 600001}, {699999, 800000}, {0, 262145}}) {
    TextReader reader(path, begin, end);
    std::string all, part(9999, '\0');
    while (const size_t got = reader.read(part.data(), part.size())) all.append(part, 0, got);
    const auto first = static_cast<size_t>(begin);
    EXPECT_TRUE(all == text.substr(first, static_cast<size_t>(end) - first)) << begin << " " << end;
  }
  const std::string packed = folder.write("packed", gzip(text));
  EXPECT_CONTAINS(data_error([&] { TextReader reader(packed, 5); }), "is gzip data now");
}

}  // namespace
}  // namespace espalier
