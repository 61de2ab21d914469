// SPDX-License-Identifier: Apache-2.0
// The documents of a piece of a source, one after another, whatever their format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "corpus/source/input_faults.hpp"
#include "corpus/source/input_list.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

struct Document {
  std::string text;  // valid UTF-8 unless faults.broken_utf8 = keep
  int64_t file = 0;  // index in the source's files
  int64_t line = 0;  // where it begins, 1-based; 0: not known (a part from inside a file)
};

/// Reads the documents of one piece. Memory is a document and buffers, whatever the file.
/// Faults are noted, then skipped or fatal as the deck says; a fatal one throws.
/// Errors    DataError with file and line
class DocumentStream {
 public:
  DocumentStream(const SourceConfig& source, const std::vector<InputFile>& files,
                 const InputPiece& piece, const FaultConfig& faults, int64_t longest_document_bytes,
                 InputFaults& noted);
  ~DocumentStream();
  DocumentStream(const DocumentStream&) = delete;
  DocumentStream& operator=(const DocumentStream&) = delete;

  /// The next document, never empty; false at the end. `out.text` is reused.
  bool next(Document& out);

  int64_t bytes_done() const;  ///< of piece.bytes, for progress

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
