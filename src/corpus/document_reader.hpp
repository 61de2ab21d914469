// SPDX-License-Identifier: Apache-2.0
// Text files as documents: a whole file each, or pieces cut where a reader would cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "corpus/text_reader.hpp"

namespace espalier {

/// Where to cut a text longer than `most` bytes: in (most / 2, most], after the last blank line
/// there, else after the last line end, else at most bytes, but never inside a UTF-8 character.
/// Shape     most >= 8, text.size() > most
size_t find_document_cut(std::string_view text, size_t most);

/// The documents of one file, in order; together they are its text, byte for byte.
/// Memory is a document and a buffer: about 3 * document_bytes, or the file where that is 0.
/// Errors    DataError as TextReader
class DocumentReader {
 public:
  static constexpr int64_t kSmallestDocumentBytes = 64;

  /// document_bytes = 0 makes the file one document; else at least kSmallestDocumentBytes.
  DocumentReader(const std::string& path, int64_t document_bytes);

  /// The next document, never empty; false at the end. The view is valid until the next call.
  bool next(std::string_view& document);

  bool is_gzip() const { return reader_.is_gzip(); }

 private:
  void read_more(size_t wanted);

  TextReader reader_;
  size_t document_bytes_;
  std::string buffer_;  // its bytes [begin_, end_) are read and not handed out
  size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
};

}  // namespace espalier
