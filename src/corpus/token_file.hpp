// SPDX-License-Identifier: Apache-2.0
// Reading token files: mapped into memory, checked when opened and at each read.
#pragma once

#include <cstdint>
#include <string>

#include "corpus/store/mapped_file.hpp"
#include "corpus/store/token_array.hpp"
#include "corpus/token_header.hpp"
#include "deck/config.hpp"

namespace espalier {

/// A token file, mapped read-only. Opening costs no time or memory that grows with its size,
/// except that VerifyData::full reads the payload once to compare its checksum.
///
/// The file must not be changed while it is open: build replaces by rename, which is safe.
/// Thread-safe: all reads are const and keep no state.
/// Errors    DataError for a missing, unreadable, foreign, truncated, newer or damaged file
class TokenFile : public TokenArray {
 public:
  TokenFile(const std::string& path, VerifyData verify);

  const std::string& path() const override { return file_.path(); }
  const TokenHeader& header() const { return header_; }
  int64_t tokens() const override { return header_.tokens; }
  int64_t vocab_size() const override { return header_.vocab_size; }
  int32_t end_of_document() const override { return static_cast<int32_t>(header_.end_of_document); }
  const std::string& tokenizer() const override { return header_.tokenizer; }
  void read(int64_t begin, int64_t count, int32_t* out) const override;

  bool has_index() const override { return false; }
  int64_t documents() const override { return 0; }  ///< header().documents counts them
  int64_t document_begin(int64_t i) const override;

  /// Reads the whole payload and compares its checksum.
  /// Errors    DataError if they differ
  void verify_payload() const;

 private:
  MappedFile file_;
  TokenHeader header_;
};

/// Requires that two files can be used together: same tokenizer, vocabulary and end of document.
/// Errors    DataError naming both
void require_same_tokenizer(const TokenArray& a, const TokenArray& b);

/// Position of a document in a token file: tokens [begin, end), its end-of-document token excluded.
struct DocumentRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Finds document `index` (from 0). The format keeps no index: this reads the file up to there.
/// Errors    DataError if the file has no such document
DocumentRange find_document(const TokenFile& file, int64_t index);

}  // namespace espalier
