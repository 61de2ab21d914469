// SPDX-License-Identifier: Apache-2.0
// The file of one piece's keys: signatures, then records sorted by key, with checksums by block.
//
// All numbers little-endian. A header of 128 bytes; the signatures (256 bytes each, in the order of
// the documents; none without near); the exact records (24 bytes each, by hash and index); the near
// records (16 bytes each, by key and index); XXH3-64 of each 64 KiB of what stands between the
// header and here. The header has its own checksum, which covers that of the list of checksums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "corpus/clean/min_hash.hpp"
#include "corpus/store/mapped_file.hpp"
#include "deck/corpus_config.hpp"

namespace espalier {

/// A document by the 128 bits of its text's XXH3.
struct ExactRecord {
  uint64_t high = 0, low = 0;
  uint64_t index = 0;  // of the document in its piece
};

/// A document by one band of its signature.
struct NearRecord {
  uint64_t key = 0;
  uint64_t index = 0;
};
static_assert(sizeof(ExactRecord) == 24 && sizeof(NearRecord) == 16);

constexpr uint32_t kKeyFormatVersion = 1;
constexpr size_t kKeyHeaderBytes = 128;
constexpr int64_t kKeyBlockBytes = int64_t{64} << 10;
using KeyHeaderBytes = std::array<unsigned char, kKeyHeaderBytes>;

/// What the header says. One rule makes the places of all sections from the counts.
struct KeyHeader {
  int64_t documents = 0;
  int64_t near_records = 0;
  int64_t bands = 0, rows = 0, shingle = 0;  // 0 without near
  double similarity = 0.0;
  uint64_t block_checksum = 0;  // of the list of the blocks' checksums

  bool is_near() const { return bands > 0; }
  int64_t signature_bytes() const;
  int64_t exact_at() const;
  int64_t near_at() const;
  int64_t checksums_at() const;
  int64_t blocks() const;
  int64_t file_bytes() const;
};

/// The settings that a file made under `config` has; counts are 0.
/// Errors    DeckError for a similarity that cannot be reached
KeyHeader key_header_of(const CleanConfig& config);

KeyHeaderBytes encode_key_header(const KeyHeader& header);

/// Reads and checks the header of a file, and that the file's size is what it says.
/// Errors    DataError for files that are missing, foreign, cut or damaged
KeyHeader read_key_header(const std::string& path);

/// A half-open range of records or bytes.
struct Span {
  int64_t begin = 0, end = 0;
};

/// A key file mapped for reading.
class KeyFile {
 public:
  /// Errors    DataError as read_key_header, and for settings other than those of `config`
  KeyFile(const std::string& path, const CleanConfig& config);

  const KeyHeader& header() const { return header_; }
  const std::string& path() const { return file_.path(); }
  const ExactRecord* exact() const;
  const NearRecord* near_records() const;
  const uint16_t* signature(int64_t document) const;

  /// Records of range `range` of `ranges`, checked: their blocks' checksums, their order, their
  /// indices.
  Span exact_range(int64_t range, int64_t ranges) const;
  Span near_range(int64_t range, int64_t ranges) const;

  /// Checks this range's share of the signatures, so that all ranges together check every byte
  /// once.
  void verify_signatures(int64_t range, int64_t ranges) const;

 private:
  void verify_bytes(Span bytes) const;
  [[noreturn]] void fail(const std::string& what) const;

  KeyHeader header_;
  MappedFile file_;
};

/// The range of `ranges` that `key` belongs to: ranges are equal parts of the 64-bit keys, in
/// order.
int64_t range_of_key(uint64_t key, int64_t ranges);

}  // namespace espalier
