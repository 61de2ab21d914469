// SPDX-License-Identifier: Apache-2.0
// The header of a token file, version 1: 128 bytes, little-endian. docs/token-file-format.md is
// its description; a test holds the two together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace espalier {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "token files are mapped as they are: a little-endian processor is needed");

constexpr size_t kTokenHeaderBytes = 128;
constexpr uint32_t kTokenFormatVersion = 1;
constexpr size_t kTokenizerNameBytes = 48;  // with at least one closing zero byte
constexpr std::array<unsigned char, 8> kTokenMagic = {0x89, 'E', 'S', 'P', 'T', 'O', 'K', '\n'};

/// What a token file says about itself.
struct TokenHeader {
  int64_t vocab_size = 0;       // ids are in [0, vocab_size)
  int64_t tokens = 0;           // end-of-document tokens included
  int64_t documents = 0;        // = number of end-of-document tokens
  int64_t end_of_document = 0;  // its id
  std::string tokenizer;        // name, for example "bytes"
  uint64_t checksum = 0;        // XXH3-64, seed 0, of the payload

  /// Bytes of one stored id: 2 when every id fits in 16 bits, else 4.
  int64_t token_bytes() const { return vocab_size <= 65536 ? 2 : 4; }
};

using TokenHeaderBytes = std::array<unsigned char, kTokenHeaderBytes>;

/// The header as it stands in the file, its own checksum included.
/// Errors    Internal if a field is outside its range (see check in token_header.cpp)
TokenHeaderBytes encode_token_header(const TokenHeader& header);

/// The checksum in the header. It covers the payload's checksum, and so stands for the whole file.
uint64_t token_header_checksum(const TokenHeader& header);

/// Reads and checks a header: magic, version, checksum, then every field.
///
/// `data` holds the first `bytes` bytes of the file (all of it if it is shorter than a header) and
/// `file_bytes` is the size of the whole file, which must be header + tokens exactly.
/// Errors    DataError naming `path`, the place and the remedy
TokenHeader decode_token_header(const unsigned char* data, size_t bytes, int64_t file_bytes,
                                const std::string& path);

}  // namespace espalier
