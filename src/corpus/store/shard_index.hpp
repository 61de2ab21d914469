// SPDX-License-Identifier: Apache-2.0
// The index of a shard, version 1: where each document ends, its hash and its length as text.
// docs/token-store-format.md describes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "corpus/store/mapped_file.hpp"
#include "corpus/token_header.hpp"
#include "deck/config.hpp"

namespace espalier {

constexpr size_t kIndexHeaderBytes = 80;
constexpr uint32_t kIndexFormatVersion = 1;
constexpr std::array<unsigned char, 8> kIndexMagic = {0x89, 'E', 'S', 'P', 'I', 'D', 'X', '\n'};

/// One document, as it stands in the file.
struct IndexRecord {
  int64_t end = 0;         // first token behind the document's end-of-document token
  uint64_t hash = 0;       // XXH3-64, seed 0, of its text
  int64_t text_bytes = 0;  // of its text
};
static_assert(sizeof(IndexRecord) == 24);

struct IndexHeader {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  uint64_t token_header = 0;  // checksum of the header of the token file that it belongs to
  uint64_t checksum = 0;      // XXH3-64, seed 0, of the records
};

using IndexHeaderBytes = std::array<unsigned char, kIndexHeaderBytes>;

/// Errors    Internal for counts that no index may have
IndexHeaderBytes encode_index_header(const IndexHeader& header);

/// Name of the index of a token file: PATH with .idx in the place of .tok.
std::string index_path(const std::string& token_path);

/// An index, mapped. Opening with VerifyData::header takes constant time.
/// Errors    DataError for a missing, foreign, truncated, newer or damaged file
class ShardIndex {
 public:
  ShardIndex(const std::string& path, VerifyData verify);

  const std::string& path() const { return file_.path(); }
  const IndexHeader& header() const { return header_; }

  /// Document `i`.
  /// Errors    DataError if its end is outside the tokens
  IndexRecord record(int64_t i) const;

  /// Compares the checksum of the records, and holds every record against the sums of the header.
  void verify_records() const;

 private:
  MappedFile file_;
  IndexHeader header_;
};

}  // namespace espalier
