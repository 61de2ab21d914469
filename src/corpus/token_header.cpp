// SPDX-License-Identifier: Apache-2.0
// Token file headers to bytes and back, with every check that needs the header alone.
#include "corpus/token_header.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/header_fields.hpp"

namespace espalier {
namespace {

// Offsets of the fields; docs/token-file-format.md.
constexpr size_t kVersionAt = 8, kHeaderBytesAt = 12, kTokenBytesAt = 16, kReserved1At = 20,
                 kVocabAt = 24, kTokensAt = 32, kDocumentsAt = 40, kEndAt = 48, kNameAt = 56,
                 kChecksumAt = 104, kReserved2At = 112, kHeaderChecksumAt = 120;
constexpr const char* kRebuild = "copy the file again, or rebuild it with espalier corpus build";

// Empty when all is well, else what is wrong. One rule for what is written and what is read.
std::string find_fault(const TokenHeader& h) {
  constexpr int64_t max_vocab = std::numeric_limits<int32_t>::max();
  constexpr int64_t max_bytes = std::numeric_limits<int64_t>::max();
  if (h.vocab_size < 1 || h.vocab_size > max_vocab) {
    return fmt::format("vocab_size = {} is outside [1, {}]", h.vocab_size, max_vocab);
  }
  if (h.tokens == 0) return "it holds no tokens";
  if (h.tokens < 0 ||
      h.tokens > (max_bytes - static_cast<int64_t>(kTokenHeaderBytes)) / h.token_bytes()) {
    return fmt::format("token count {} is more than any file can hold",
                       static_cast<uint64_t>(h.tokens));
  }
  if (h.documents < 0 || h.documents > h.tokens) {
    return fmt::format("document count {} exceeds token count {}",
                       static_cast<uint64_t>(h.documents), h.tokens);
  }
  if (h.end_of_document < 0 || h.end_of_document >= h.vocab_size) {
    return fmt::format("end-of-document id {} is not below vocab_size {}",
                       static_cast<uint64_t>(h.end_of_document), h.vocab_size);
  }
  if (h.tokenizer.empty() || h.tokenizer.size() >= kTokenizerNameBytes) {
    return fmt::format("the tokenizer's name has {} bytes, not 1 to {}", h.tokenizer.size(),
                       kTokenizerNameBytes - 1);
  }
  for (const char c : h.tokenizer) {
    if (c <= ' ' || c > '~') return "the tokenizer's name holds bytes that are not printable ASCII";
  }
  return "";
}

std::string read_name(const unsigned char* data, const std::string& path) {
  const auto* begin = reinterpret_cast<const char*>(data + kNameAt);
  const auto* end = std::find(begin, begin + kTokenizerNameBytes, '\0');
  if (std::any_of(end, begin + kTokenizerNameBytes, [](char c) { return c != '\0'; })) {
    throw DataError(
        fmt::format("{}: header: bytes after the end of the tokenizer's name; {}", path, kRebuild));
  }
  return std::string(begin, end);
}

// Everything that must hold before a field may be believed.
void check_frame(const unsigned char* data, size_t bytes, const std::string& path) {
  if (bytes < kTokenMagic.size() ||
      std::memcmp(data, kTokenMagic.data(), kTokenMagic.size()) != 0) {
    throw DataError(fmt::format(
        "{}: not a token file (its first bytes differ from the mark of one); make one from text "
        "with espalier corpus build",
        path));
  }
  if (bytes < kVersionAt + 4) {
    throw DataError(fmt::format("{}: cut off inside its header ({} bytes, a header has {}); {}",
                                path, bytes, kTokenHeaderBytes, kRebuild));
  }
  const auto version = get_field<uint32_t>(data, kVersionAt);
  if (version > kTokenFormatVersion) {
    throw DataError(fmt::format(
        "{}: header byte {}: format version {} is newer than the {} that this program reads; use a "
        "newer espalier, or rebuild the file with this one",
        path, kVersionAt, version, kTokenFormatVersion));
  }
  if (bytes < kTokenHeaderBytes) {
    throw DataError(fmt::format("{}: cut off inside its header ({} bytes, a header has {}); {}",
                                path, bytes, kTokenHeaderBytes, kRebuild));
  }
  const auto stored = get_field<uint64_t>(data, kHeaderChecksumAt);
  const uint64_t found = hash_bytes(data, kHeaderChecksumAt);
  if (stored != found) {
    throw DataError(
        fmt::format("{}: header is damaged (checksum {:016x}, but its bytes give {:016x}); {}",
                    path, stored, found, kRebuild));
  }
  if (version != kTokenFormatVersion ||
      get_field<uint32_t>(data, kHeaderBytesAt) != kTokenHeaderBytes ||
      get_field<uint32_t>(data, kReserved1At) != 0 ||
      get_field<uint64_t>(data, kReserved2At) != 0) {
    throw DataError(fmt::format(
        "{}: header: version {}, header size {} or a reserved field is not as version {} has it; "
        "{}",
        path, version, get_field<uint32_t>(data, kHeaderBytesAt), kTokenFormatVersion, kRebuild));
  }
}

}  // namespace

TokenHeaderBytes encode_token_header(const TokenHeader& header) {
  const std::string fault = find_fault(header);
  ESPALIER_REQUIRE(fault.empty(), "token header: {}", fault);
  TokenHeaderBytes bytes{};
  std::copy(kTokenMagic.begin(), kTokenMagic.end(), bytes.begin());
  put_field(bytes, kVersionAt, kTokenFormatVersion);
  put_field(bytes, kHeaderBytesAt, static_cast<uint32_t>(kTokenHeaderBytes));
  put_field(bytes, kTokenBytesAt, static_cast<uint32_t>(header.token_bytes()));
  put_field(bytes, kVocabAt, header.vocab_size);
  put_field(bytes, kTokensAt, header.tokens);
  put_field(bytes, kDocumentsAt, header.documents);
  put_field(bytes, kEndAt, header.end_of_document);
  std::copy(header.tokenizer.begin(), header.tokenizer.end(), bytes.begin() + kNameAt);
  put_field(bytes, kChecksumAt, header.checksum);
  put_field(bytes, kHeaderChecksumAt, hash_bytes(bytes.data(), kHeaderChecksumAt));
  return bytes;
}

uint64_t token_header_checksum(const TokenHeader& header) {
  return get_field<uint64_t>(encode_token_header(header).data(), kHeaderChecksumAt);
}

TokenHeader decode_token_header(const unsigned char* data, size_t bytes, int64_t file_bytes,
                                const std::string& path) {
  check_frame(data, bytes, path);
  TokenHeader h;
  h.vocab_size = get_field<int64_t>(data, kVocabAt);
  h.tokens = get_field<int64_t>(data, kTokensAt);
  h.documents = get_field<int64_t>(data, kDocumentsAt);
  h.end_of_document = get_field<int64_t>(data, kEndAt);
  h.tokenizer = read_name(data, path);
  h.checksum = get_field<uint64_t>(data, kChecksumAt);
  const std::string fault = find_fault(h);
  if (!fault.empty()) throw DataError(fmt::format("{}: header: {}; {}", path, fault, kRebuild));
  if (get_field<uint32_t>(data, kTokenBytesAt) != h.token_bytes()) {
    throw DataError(
        fmt::format("{}: header byte {}: ids of {} bytes, but vocab_size {} asks for {}; {}", path,
                    kTokenBytesAt, get_field<uint32_t>(data, kTokenBytesAt), h.vocab_size,
                    h.token_bytes(), kRebuild));
  }
  const int64_t expected = static_cast<int64_t>(kTokenHeaderBytes) + h.tokens * h.token_bytes();
  if (file_bytes != expected) {
    throw DataError(fmt::format(
        "{}: {} bytes, but {} tokens of {} bytes and the header make {}: {}; {}", path, file_bytes,
        h.tokens, h.token_bytes(), expected,
        file_bytes < expected ? "it is truncated" : "something was added to it", kRebuild));
  }
  return h;
}

}  // namespace espalier
