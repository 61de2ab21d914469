// SPDX-License-Identifier: Apache-2.0
// Reading token files: mapped into memory, checked when opened and at each read.
#pragma once

#include <cstdint>
#include <string>

#include "corpus/token_header.hpp"
#include "deck/config.hpp"

namespace espalier {

/// A token file, mapped read-only. Opening costs no time or memory that grows with its size,
/// except that VerifyData::full reads the payload once to compare its checksum.
///
/// The file must not be changed while it is open: build replaces by rename, which is safe.
/// Thread-safe: all reads are const and keep no state.
/// Errors    DataError for a missing, unreadable, foreign, truncated, newer or damaged file
class TokenFile {
 public:
  TokenFile(const std::string& path, VerifyData verify);
  ~TokenFile();
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&& other) noexcept;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  const TokenHeader& header() const { return header_; }
  int64_t tokens() const { return header_.tokens; }

  /// Copies tokens [begin, begin + count) to `out`.
  /// Errors    DataError with file and position if an id is not below vocab_size;
  ///           Internal if the range is outside the file
  void read(int64_t begin, int64_t count, int32_t* out) const;

  /// Reads the whole payload and compares its checksum.
  /// Errors    DataError if they differ
  void verify_payload() const;

 private:
  void unmap();

  std::string path_;
  TokenHeader header_;
  const unsigned char* data_ = nullptr;  // the whole file, from the header on
  size_t bytes_ = 0;
};

/// Requires that two files can be used together: same tokenizer, vocabulary and end of document.
/// Errors    DataError naming both
void require_same_tokenizer(const TokenFile& a, const TokenFile& b);

/// Position of a document in a token file: tokens [begin, end), its end-of-document token excluded.
struct DocumentRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Finds document `index` (from 0). The format keeps no index: this reads the file up to there.
/// Errors    DataError if the file has no such document
DocumentRange find_document(const TokenFile& file, int64_t index);

}  // namespace espalier
