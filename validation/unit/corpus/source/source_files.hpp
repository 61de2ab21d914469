// SPDX-License-Identifier: Apache-2.0
// Sources made for a test, and all that a stream gives of them.
#pragma once

#include <sys/stat.h>
#include <zstd.h>

#include <string>
#include <vector>

#include "../corpus_files.hpp"
#include "corpus/source/document_stream.hpp"
#include "corpus/source/input_faults.hpp"
#include "corpus/source/input_list.hpp"

namespace espalier::testing {

/// One zstd frame with a checksum.
inline std::string zstd(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()) + 64, '\0');
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  ZSTD_outBuffer to = {out.data(), out.size(), 0};
  // As a stream, so that the frame does not tell its size and has the window that was asked for.
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_continue);
  ZSTD_compressStream2(context, &to, &in, ZSTD_e_end);
  out.resize(to.pos);
  ZSTD_freeCCtx(context);
  return out;
}

/// A frame that decompressors skip.
inline std::string skippable_frame(const std::string& content) {
  const auto size = static_cast<uint32_t>(content.size());
  std::string frame = "\x5A\x2A\x4D\x18";
  for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(size >> shift);
  return frame + content;
}

inline SourceConfig text_source(const std::string& path, DocumentCut documents,
                                const std::string& separator = "", int64_t document_bytes = 0) {
  SourceConfig source;
  source.name = "test";
  source.paths = {path};
  source.documents = documents;
  source.separator = separator;
  source.document_bytes = document_bytes;
  return source;
}

struct ReadRequest {
  int64_t piece_bytes = int64_t{1} << 40;
  int64_t longest = int64_t{1} << 20;
  FaultConfig faults;
};

struct ReadResult {
  std::vector<std::string> texts;
  std::vector<int64_t> lines;
  InputFaults faults;
  int64_t pieces = 0;
};

/// All documents of a source, piece after piece, as a build with any number of ranks has them.
inline ReadResult read_source(const SourceConfig& source, const ReadRequest& request = {}) {
  ReadResult result{{}, {}, InputFaults(request.faults.examples), 0};
  const std::vector<InputFile> files = list_inputs(source);
  for (const InputPiece& piece : cut_pieces(source, 0, files, request.piece_bytes)) {
    InputFaults noted(request.faults.examples);
    DocumentStream stream(source, files, piece, request.faults, request.longest, noted);
    Document document;
    int64_t done = 0;
    while (stream.next(document)) {
      EXPECT_FALSE(document.text.empty());
      EXPECT_GE(stream.bytes_done(), done);
      done = stream.bytes_done();
      EXPECT_LE(done, piece.bytes);
      result.texts.push_back(document.text);
      result.lines.push_back(document.line);
    }
    EXPECT_EQ(stream.bytes_done(), piece.bytes);
    EXPECT_FALSE(stream.next(document)) << "a second end";
    result.faults.append(noted);
    ++result.pieces;
  }
  return result;
}

/// "path:line what" of the first place of a kind, or "none".
inline std::string first_place(const InputFaults& faults, FaultKind kind) {
  if (faults.places(kind).empty()) return "none";
  const FaultPlace& place = faults.places(kind).front();
  return fmt::format("{}:{} {}", place.path, place.line, place.what);
}

}  // namespace espalier::testing
