// SPDX-License-Identifier: Apache-2.0
// The parts of a piece, one after another.
#include "corpus/source/document_stream.hpp"

#include <algorithm>
#include <optional>

#include "core/error.hpp"
#include "corpus/source/html_encoding.hpp"
#include "corpus/source/part_input.hpp"

namespace espalier {
namespace {

void require_usable(const SourceConfig& source) {
  const bool is_sized = source.documents == DocumentCut::size;
  ESPALIER_REQUIRE(!is_sized || source.document_bytes >= 8, "source {}: documents of {} bytes",
                   source.name, source.document_bytes);
  ESPALIER_REQUIRE(source.separator.find('\n') == std::string::npos,
                   "source {}: a separator of several lines", source.name);
  if (!source.encoding.empty() && !is_known_encoding(source.encoding)) {
    throw DataError(
        fmt::format("source {}: encoding = \"{}\" is not known; use a name such as "
                    "windows-1252, shift_jis or gb18030",
                    source.name, source.encoding));
  }
}

std::unique_ptr<PartReader> open_part(const PartRequest& request) {
  switch (request.file.format) {
    case SourceFormat::jsonl: return read_jsonl_part(request);
    case SourceFormat::html: return read_html_part(request);
    default: return read_text_part(request);
  }
}

}  // namespace

struct DocumentStream::State {
  const SourceConfig& source;
  const std::vector<InputFile>& files;
  const InputPiece& piece;
  const FaultConfig& faults;
  int64_t longest;
  InputFaults& noted;

  size_t part = 0;         // the one that is read, or comes next
  int64_t bytes_done = 0;  // of the parts before it
  std::optional<PartFaults> part_faults;
  std::unique_ptr<PartReader> reader;

  void open() {
    const InputPart& range = piece.parts[part];
    ESPALIER_REQUIRE(range.file >= 0 && range.file < static_cast<int64_t>(files.size()),
                     "file {} of {}", range.file, files.size());
    const InputFile& file = files[static_cast<size_t>(range.file)];
    ESPALIER_REQUIRE(file.format != SourceFormat::automatic, "{}: no format", file.path);
    part_faults.emplace(faults, noted, file.path);
    reader = open_part({source, file, range, longest, *part_faults});
  }

  void close() {
    reader.reset();
    bytes_done += piece.parts[part].end - piece.parts[part].begin;
    ++part;
  }
};

DocumentStream::DocumentStream(const SourceConfig& source, const std::vector<InputFile>& files,
                               const InputPiece& piece, const FaultConfig& faults,
                               int64_t longest_document_bytes, InputFaults& noted)
    : state_(new State{source, files, piece, faults, longest_document_bytes, noted, 0, 0, {}, {}}) {
  ESPALIER_REQUIRE(longest_document_bytes >= 1, "documents of {} bytes", longest_document_bytes);
  require_usable(source);
}

DocumentStream::~DocumentStream() = default;

bool DocumentStream::next(Document& out) {
  State& s = *state_;
  while (s.part < s.piece.parts.size()) {
    if (s.reader == nullptr) s.open();
    if (s.reader->next(out)) {
      out.file = s.piece.parts[s.part].file;
      return true;
    }
    s.close();
  }
  return false;
}

int64_t DocumentStream::bytes_done() const {
  const State& s = *state_;
  if (s.reader == nullptr) return s.bytes_done;
  const InputPart& part = s.piece.parts[s.part];
  const int64_t position = std::clamp(s.reader->disk_position(), part.begin, part.end);
  return s.bytes_done + position - part.begin;
}

}  // namespace espalier
