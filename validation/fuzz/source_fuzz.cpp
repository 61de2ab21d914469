// SPDX-License-Identifier: Apache-2.0
// Any bytes as an input of a corpus: JSON Lines, HTML, text in all cuts, gzip or zstd. Read, or
// refused with DataError, never worse; and plain files give the same documents in any pieces.
// The first three bytes choose; the rest is the file, which lives in memory (memfd).
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "corpus/source/document_stream.hpp"
#include "corpus/utf8.hpp"
#include "memory_file.hpp"

namespace {

using namespace espalier;

void require(bool condition) {
  if (!condition) std::abort();
}

constexpr int64_t kLongest = 1000;
constexpr size_t kMostDocuments = 100000;  // a few bytes of zstd may be gigabytes of text

std::vector<std::string> read(const SourceConfig& source, const std::vector<InputFile>& files,
                              int64_t piece_bytes, const FaultConfig& faults) {
  std::vector<std::string> texts;
  for (const InputPiece& piece : cut_pieces(source, 0, files, piece_bytes)) {
    InputFaults noted(2);
    DocumentStream stream(source, files, piece, faults, kLongest, noted);
    Document document;
    while (texts.size() < kMostDocuments && stream.next(document)) {
      require(!document.text.empty());
      // Broken bytes that are replaced grow, by two bytes each.
      require(document.text.size() <= 3 * static_cast<size_t>(kLongest));
      require(faults.broken_utf8 == OnBrokenText::keep || count_broken_utf8(document.text) == 0);
      texts.push_back(document.text);
    }
  }
  return texts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const MemoryFile file(data + 3, size - 3);
  SourceConfig source;
  source.name = "fuzz";
  source.separator = "%";
  source.document_bytes = 64;
  source.documents = static_cast<DocumentCut>(data[0] % 4);
  source.field = data[0] >= 128 ? "/a/0" : "a";
  FaultConfig faults;
  faults.broken_utf8 = static_cast<OnBrokenText>(data[1] % 3);
  faults.damaged_file = data[1] >= 128 ? OnFault::fatal : OnFault::skip;
  const SourceFormat formats[] = {SourceFormat::text, SourceFormat::jsonl, SourceFormat::html};
  const std::vector<InputFile> files = {{file.path(), static_cast<int64_t>(size - 3),
                                         find_compression(data + 3, size - 3),
                                         formats[data[2] % 3]}};
  const bool is_plain = files[0].compression == Compression::none;
  try {
    const std::vector<std::string> whole = read(source, files, int64_t{1} << 40, faults);
    const bool is_sized =
        files[0].format == SourceFormat::text && source.documents == DocumentCut::size;
    // Hundreds of pieces at most: each opens the file.
    const auto piece_bytes =
        std::max<int64_t>(1 + data[2] / 3, static_cast<int64_t>(size) / 200 + 1);
    const std::vector<std::string> cut = read(source, files, piece_bytes, faults);
    if (!is_sized) require(cut == whole);
  } catch (const DataError&) {
    // Only damaged pages and damaged compression are fatal here.
    require(faults.damaged_file == OnFault::fatal);
    require(!is_plain || files[0].format == SourceFormat::html);
  }
  return 0;
}
