// SPDX-License-Identifier: Apache-2.0
// Plain and gzip text, and every way in which a file can be bad.
#include "corpus/source/text_reader.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "corpus_files.hpp"

namespace espalier {
namespace {

using testing::data_error;
using testing::gzip;
using testing::random_text;
using testing::TempFolder;

std::string read_all(const std::string& path, size_t piece = 65536) {
  TextReader reader(path);
  std::string all, part(piece, '\0');
  while (const size_t got = reader.read(part.data(), piece)) all.append(part, 0, got);
  return all;
}

TEST(TextReader, PlainFilesOfManySizes) {
  const TempFolder folder;
  for (const size_t size : {0, 1, 2, 3, 1000, 262143, 262144, 262145, 1000000}) {
    const std::string text = random_text(size, size);
    const std::string path = folder.write("a.txt", text);
    for (const size_t piece : {size_t{7}, size_t{65536}}) {
      if (size > 100000 && piece == 7) continue;
      EXPECT_EQ(read_all(path, piece), text) << size;
    }
    EXPECT_FALSE(TextReader(path).is_gzip());
  }
}

TEST(TextReader, GzipIsKnownByContentNotByName) {
  const TempFolder folder;
  const std::string text = random_text(1, 700000);
  EXPECT_EQ(read_all(folder.write("packed.txt", gzip(text))), text);
  EXPECT_EQ(read_all(folder.write("plain.gz", text)), text);
  EXPECT_TRUE(TextReader(folder.at("packed.txt")).is_gzip());
  EXPECT_FALSE(TextReader(folder.at("plain.gz")).is_gzip());
  EXPECT_EQ(read_all(folder.write("half-magic", "\x1f")), "\x1f");
}

TEST(TextReader, GzipWithSeveralMembersAndPadding) {
  const TempFolder folder;
  std::string packed, text;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string part = random_text(i, i * 5000);  // the first is empty
    packed += gzip(part);
    text += part;
  }
  EXPECT_EQ(read_all(folder.write("many", packed)), text);
  EXPECT_EQ(read_all(folder.write("many", packed), 13), text);
  EXPECT_EQ(read_all(folder.write("padded", packed + std::string(300000, '\0'))), text);
  EXPECT_EQ(read_all(folder.write("empty", gzip(""))), "");
}

// Wherever a gzip file is cut, the reader must say so: it never takes a part for the whole.
TEST(TextReader, EveryTruncationOfGzipIsFound) {
  const TempFolder folder;
  const std::string packed = gzip(random_text(3, 800));
  for (size_t size = 2; size < packed.size(); ++size) {
    const std::string path = folder.write("cut", packed.substr(0, size));
    const std::string message = data_error([&] { read_all(path); });
    EXPECT_CONTAINS(message, "truncated");
    EXPECT_CONTAINS(message, path);
    EXPECT_CONTAINS(message, fmt::format("at byte {};", size));
  }
  // Also in a later member, and far from any buffer's beginning.
  const std::string two = gzip(random_text(4, 600000)) + packed;
  EXPECT_CONTAINS(data_error([&] { read_all(folder.write("cut", two.substr(0, two.size() - 1))); }),
                  "truncated");
}

// Some bits say nothing about the text: hints in the header, and what fills up the last byte before
// the checksum. Whatever is flipped, the text is right or the reader says that it is not.
TEST(TextReader, FlippedBitsOfGzipAreFound) {
  const TempFolder folder;
  const std::string text = random_text(5, 300);
  const std::string packed = gzip(text);
  size_t harmless = 0;
  for (size_t bit = 8 * 2; bit < 8 * packed.size(); ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const std::string path = folder.write("damaged", damaged);
    std::string found;
    const std::string message = data_error([&] { found = read_all(path); });
    if (message == "no exception") {
      EXPECT_EQ(found, text) << "bit " << bit;
      ++harmless;
    } else {
      EXPECT_CONTAINS(message, "gzip data");
      EXPECT_CONTAINS(message, "copy or download it again");
    }
  }
  // Six bytes of hints, the bit "probably text", and at most seven bits that fill up.
  EXPECT_LE(harmless, 6u * 8 + 1 + 7);
}

TEST(TextReader, BytesAfterGzipAreFound) {
  const TempFolder folder;
  const std::string packed = gzip("text");
  EXPECT_CONTAINS(data_error([&] { read_all(folder.write("x", packed + "more")); }),
                  "followed by bytes that are not gzip");
  EXPECT_CONTAINS(
      data_error([&] { read_all(folder.write("x", packed + std::string(400000, '\0') + "more")); }),
      "followed by zeros and then");
}

TEST(TextReader, MissingFoldersAndUnreadable) {
  const TempFolder folder;
  EXPECT_CONTAINS(data_error([&] { read_all(folder.at("none")); }), "check the path");
  EXPECT_CONTAINS(data_error([&] { read_all(folder.at("")); }), "is a folder; name the files");
  const std::string secret = folder.write("secret", "x");
  ::chmod(secret.c_str(), 0);
  if (::geteuid() == 0) GTEST_SKIP() << "rights do not bind this user";
  EXPECT_CONTAINS(data_error([&] { read_all(secret); }), "check your rights to it");
}

TEST(TextReader, PipesThatGiveLittleAtOnce) {
  const TempFolder folder;
  const std::string path = folder.at("pipe"), packed = gzip("through a pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream out(path, std::ios::binary);
    for (const char c : packed) out << c << std::flush;
  });
  EXPECT_EQ(read_all(path), "through a pipe");
  writer.join();
}

}  // namespace
}  // namespace espalier
