// SPDX-License-Identifier: Apache-2.0
// However files are cut into pieces, the documents are those of the uncut files, each once.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "corpus/source/document_cut.hpp"
#include "source_files.hpp"

namespace espalier {
namespace {

using testing::gzip;
using testing::read_source;
using testing::ReadRequest;
using testing::ReadResult;
using testing::TempFolder;
using testing::text_source;
using testing::zstd;

std::string join(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

// Lines of all kinds: empty, short, CR LF, separators and what looks like them, broken, long.
std::string random_lines(uint64_t seed, size_t lines) {
  static const std::string kParts[] = {"%%",
                                       "%% ",
                                       " %%",
                                       "",
                                       "word",
                                       "\xC3\xA9t\xC3\xA9",
                                       "\xE6\x97\xA5\xE6\x9C\xAC",
                                       "\xFF",
                                       "a\xF0\x9F\x8C\xB3"};
  std::string text;
  for (size_t i = 0; i < lines; ++i) {
    const uint64_t r = random_bits(seed, 1, i);
    text += kParts[r % 9];
    if (r % 5 == 0) text += testing::random_text(r, (r >> 8) % 50);
    if (r % 37 == 0) text += testing::random_text(r, 400);  // above the limit
    text += (r >> 20) % 3 == 0 ? "\r\n" : "\n";
  }
  if (seed % 2 == 0) text += "no line end";
  if (seed % 3 == 0) text.insert(0, "\xEF\xBB\xBF");
  return text;
}

std::string random_jsonl(uint64_t seed, size_t lines) {
  std::string text;
  for (size_t i = 0; i < lines; ++i) {
    const uint64_t r = random_bits(seed, 2, i);
    const std::string word = testing::random_text(r, r % 60);
    switch ((r >> 10) % 8) {
      case 0: text += fmt::format("{{\"text\":\"{}\",\"n\":{}}}", word, i); break;
      case 1: text += fmt::format("{{\"text\": {}}}", i); break;
      case 2: text += "{\"text\": \"open"; break;
      case 3: text += "{\"text\": \"\\ud83d \xFF\"}"; break;
      case 4: break;
      case 5: text += fmt::format("{{\"text\":\"{}\"}}", testing::random_text(r, 400)); break;
      default: text += fmt::format("{{\"id\":[1,{{}}],\"text\":\"{}\\n\\u00e9\"}}", word); break;
    }
    text += (r >> 20) % 3 == 0 ? "\r\n" : "\n";
  }
  return text;
}

void expect_same_faults(const ReadResult& cut, const ReadResult& whole) {
  EXPECT_EQ(cut.faults.to_json().dump(), whole.faults.to_json().dump());
}

void expect_pieces_agree(const SourceConfig& source, const std::string& text) {
  ReadRequest request;
  request.longest = 300;
  request.faults.examples = 1000000;
  const ReadResult whole = read_source(source, request);
  ASSERT_EQ(whole.pieces, 1);
  for (const int64_t bytes : {1, 2, 3, 7, 16, 64, 100, 1000, 4097}) {
    if (static_cast<int64_t>(text.size()) / bytes > 800) continue;
    request.piece_bytes = bytes;
    const ReadResult cut = read_source(source, request);
    EXPECT_EQ(cut.pieces > 1, static_cast<int64_t>(text.size()) > bytes + bytes / 16);
    ASSERT_EQ(cut.texts, whole.texts) << "pieces of " << bytes;
    expect_same_faults(cut, whole);
  }
}

TEST(Pieces, LinesAreThoseOfTheWholeFile) {
  const TempFolder folder;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const std::string text = random_lines(seed, seed * 30);
    const std::string path = folder.write("lines", text);
    expect_pieces_agree(text_source(path, DocumentCut::line), text);
  }
}

TEST(Pieces, SeparatedDocumentsAreThoseOfTheWholeFile) {
  const TempFolder folder;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const std::string text = random_lines(seed, seed * 30);
    const std::string path = folder.write("lines", text);
    expect_pieces_agree(text_source(path, DocumentCut::separator, "%%"), text);
    expect_pieces_agree(text_source(path, DocumentCut::separator, ""), text);
  }
}

TEST(Pieces, JsonLinesAreThoseOfTheWholeFile) {
  const TempFolder folder;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const std::string text = random_jsonl(seed, seed * 20);
    const std::string path = folder.write("a.jsonl", text);
    expect_pieces_agree(text_source(path, DocumentCut::file), text);
  }
}

std::string without_line_ends(std::string text) {
  const auto is_end = [](char c) { return c == '\n' || c == '\r'; };
  text.erase(std::remove_if(text.begin(), text.end(), is_end), text.end());
  return text;
}

TEST(Pieces, SizedDocumentsCoverTheFile) {
  const TempFolder folder;
  int whole_reads = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::string text;
    for (size_t i = 0; text.size() < 20000; ++i) {
      const uint64_t r = random_bits(seed, 3, i);
      text += testing::random_text(r, r % (seed % 4 == 0 ? 2000 : 90)) + "\xE6\x97\xA5";
      text += r % 5 == 0 ? "\r\n\r\n" : "\n";
    }
    const std::string path = folder.write("sized", text);
    for (const int64_t size : {64, 100, 1000}) {
      const SourceConfig source = text_source(path, DocumentCut::size, "", size);
      for (const int64_t bytes : {150, 1000, 1001, 4999, 100000}) {
        ReadRequest request;
        request.piece_bytes = bytes;
        const ReadResult result = read_source(source, request);
        // Documents of line ends alone are left out.
        const bool whole = result.faults.count(FaultKind::empty_document) == 0;
        whole_reads += whole ? 1 : 0;
        const std::string joined = join(result.texts);
        ASSERT_TRUE((whole ? joined : without_line_ends(joined)) ==
                    (whole ? text : without_line_ends(text)))
            << size << " in pieces of " << bytes;
        EXPECT_EQ(result.faults.count(FaultKind::broken_utf8), 0) << "a cut inside a character";
        for (const std::string& each : result.texts) {
          EXPECT_LE(each.size(), static_cast<size_t>(size));
        }
      }
    }
  }
  EXPECT_GT(whole_reads, 50);
}

TEST(Pieces, BordersMoveToBlankLinesElseLineEndsAndNeverBack) {
  const TempFolder folder;
  const std::string text = "aaaa\nbbbb\n\ncc\ndddd\r\n\r\ne\xE6\x97\xA5zzzzzzzzzzz";
  const std::string path = folder.write("a", text);
  const auto size = static_cast<int64_t>(text.size());
  const auto border = [&](int64_t at, int64_t window) {
    return move_border(path, size, at, window);
  };
  EXPECT_EQ(border(2, 12), 11);
  EXPECT_EQ(border(11, 12), 11);  // already behind a blank line
  EXPECT_EQ(border(12, 12), 22);
  EXPECT_EQ(border(2, 5), 5);    // no blank line so near
  EXPECT_EQ(border(24, 4), 23);  // no line end: before the character
  EXPECT_EQ(border(0, 9), 0);
  EXPECT_EQ(border(size, 9), size);
  for (const int64_t window : {4, 5, 8, 30}) {
    for (int64_t at = 1; at <= size; ++at) EXPECT_GE(border(at, window), border(at - 1, window));
  }
}

TEST(Pieces, EveryByteStandsInOnePart) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SourceConfig source = text_source("x", DocumentCut::line);
    std::vector<InputFile> files;
    for (uint64_t i = 0; i < 30; ++i) {
      const uint64_t r = random_bits(seed, 4, i);
      files.push_back({fmt::format("f{}", i), static_cast<int64_t>(r % (r % 3 == 0 ? 5000 : 50)),
                       r % 7 == 0 ? Compression::gzip : Compression::none,
                       r % 11 == 0 ? SourceFormat::html : SourceFormat::text});
    }
    const int64_t piece_bytes = static_cast<int64_t>(1 + random_bits(seed, 5, 0) % 1000);
    std::vector<int64_t> reached(files.size(), 0), parts(files.size(), 0);
    int64_t previous = 0;
    for (const InputPiece& piece : cut_pieces(source, 3, files, piece_bytes)) {
      EXPECT_EQ(piece.source, 3);
      EXPECT_FALSE(piece.parts.empty());
      int64_t bytes = 0, filled = 0;
      for (const InputPart& part : piece.parts) {
        const auto file = static_cast<size_t>(part.file);
        EXPECT_GE(part.file, previous);
        previous = part.file;
        EXPECT_EQ(part.begin, reached[file]);
        EXPECT_TRUE(part.end > part.begin || files[file].bytes == 0);
        reached[file] = part.end;
        bytes += part.end - part.begin;
        ++parts[file];
        filled += part.end > part.begin ? 1 : 0;
      }
      EXPECT_EQ(bytes, piece.bytes);
      if (filled > 1) {
        EXPECT_LE(bytes, piece_bytes + piece_bytes / 16 + 1);
      }
    }
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_EQ(reached[i], files[i].bytes);
      EXPECT_GE(parts[i], 1);
      const bool whole = files[i].compression != Compression::none ||
                         files[i].format == SourceFormat::html || files[i].bytes <= piece_bytes;
      if (whole) {
        EXPECT_EQ(parts[i], 1);
      }
    }
  }
}

TEST(Pieces, CompressedTextGivesTheSameDocuments) {
  const TempFolder folder;
  const std::string text = random_lines(4, 4000);
  for (const DocumentCut cut : {DocumentCut::line, DocumentCut::separator, DocumentCut::size}) {
    const auto read = [&](const std::string& path) {
      return read_source(text_source(path, cut, "%%", 500));
    };
    const ReadResult plain = read(folder.write("plain", text));
    for (const std::string& packed : {gzip(text), zstd(text)}) {
      const ReadResult other = read(folder.write("packed", packed));
      EXPECT_EQ(other.texts, plain.texts);
      EXPECT_EQ(other.lines, plain.lines);
    }
  }
}

// The line is that of the file: what a reader counts in the text itself.
TEST(Pieces, LinesAreNumberedFromTheFilesBeginning) {
  const TempFolder folder;
  const std::string path = folder.write("a", "one\n\ntwo\r\nthree");
  const ReadResult result = read_source(text_source(path, DocumentCut::line));
  EXPECT_EQ(result.texts, (std::vector<std::string>{"one", "two", "three"}));
  EXPECT_EQ(result.lines, (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(result.faults.places(FaultKind::empty_document)[0].line, 2);
  const ReadResult separated = read_source(text_source(path, DocumentCut::separator, "two"));
  EXPECT_EQ(separated.texts, (std::vector<std::string>{"one\n\n", "three"}));
  EXPECT_EQ(separated.lines, (std::vector<int64_t>{1, 4}));
}

}  // namespace
}  // namespace espalier
