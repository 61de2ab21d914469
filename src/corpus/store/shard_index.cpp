// SPDX-License-Identifier: Apache-2.0
// Index headers to bytes and back, and records behind them.
#include "corpus/store/shard_index.hpp"

#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/header_fields.hpp"

namespace espalier {
namespace {

// Offsets of the fields; docs/token-store-format.md.
constexpr size_t kVersionAt = 8, kHeaderBytesAt = 12, kRecordBytesAt = 16, kReserved1At = 20,
                 kDocumentsAt = 24, kTokensAt = 32, kTextBytesAt = 40, kTokenHeaderAt = 48,
                 kChecksumAt = 56, kReserved2At = 64, kHeaderChecksumAt = 72;
constexpr const char* kRebuild = "copy the store again, or rebuild it with espalier corpus build";

// Empty when all is well. One rule for what is written and what is read.
std::string find_fault(const IndexHeader& h) {
  constexpr int64_t most = (std::numeric_limits<int64_t>::max() - int64_t{kIndexHeaderBytes}) /
                           static_cast<int64_t>(sizeof(IndexRecord));
  if (h.documents < 1 || h.documents > most) {
    return fmt::format("document count {} is none that an index can have", h.documents);
  }
  if (h.tokens < h.documents) {
    return fmt::format("{} tokens are too few for {} documents", h.tokens, h.documents);
  }
  if (h.text_bytes < 0) return fmt::format("{} bytes of text", h.text_bytes);
  return "";
}

// Everything that must hold before a field may be believed.
void check_frame(const MappedFile& file) {
  const unsigned char* data = file.data();
  const auto bytes = static_cast<size_t>(file.size());
  if (bytes < kIndexMagic.size() ||
      std::memcmp(data, kIndexMagic.data(), kIndexMagic.size()) != 0) {
    throw DataError(fmt::format(
        "{}: not the index of a shard (its first bytes differ from the mark of one); {}",
        file.path(), kRebuild));
  }
  if (bytes >= kVersionAt + 4 && get_field<uint32_t>(data, kVersionAt) > kIndexFormatVersion) {
    throw DataError(fmt::format(
        "{}: header byte {}: format version {} is newer than the {} that this program reads; use a "
        "newer espalier, or rebuild the store with this one",
        file.path(), kVersionAt, get_field<uint32_t>(data, kVersionAt), kIndexFormatVersion));
  }
  if (bytes < kIndexHeaderBytes) {
    throw DataError(fmt::format("{}: cut off inside its header ({} bytes, a header has {}); {}",
                                file.path(), bytes, kIndexHeaderBytes, kRebuild));
  }
  const auto stored = get_field<uint64_t>(data, kHeaderChecksumAt);
  const uint64_t found = hash_bytes(data, kHeaderChecksumAt);
  if (stored != found) {
    throw DataError(
        fmt::format("{}: header is damaged (checksum {:016x}, but its bytes give {:016x}); {}",
                    file.path(), stored, found, kRebuild));
  }
  if (get_field<uint32_t>(data, kVersionAt) != kIndexFormatVersion ||
      get_field<uint32_t>(data, kHeaderBytesAt) != kIndexHeaderBytes ||
      get_field<uint32_t>(data, kRecordBytesAt) != sizeof(IndexRecord) ||
      get_field<uint32_t>(data, kReserved1At) != 0 ||
      get_field<uint64_t>(data, kReserved2At) != 0) {
    throw DataError(
        fmt::format("{}: header: version, header size, record size or a reserved field is not as "
                    "version {} has it; {}",
                    file.path(), kIndexFormatVersion, kRebuild));
  }
}

IndexHeader decode(const MappedFile& file) {
  check_frame(file);
  const unsigned char* data = file.data();
  IndexHeader h;
  h.documents = get_field<int64_t>(data, kDocumentsAt);
  h.tokens = get_field<int64_t>(data, kTokensAt);
  h.text_bytes = get_field<int64_t>(data, kTextBytesAt);
  h.token_header = get_field<uint64_t>(data, kTokenHeaderAt);
  h.checksum = get_field<uint64_t>(data, kChecksumAt);
  const std::string fault = find_fault(h);
  if (!fault.empty()) {
    throw DataError(fmt::format("{}: header: {}; {}", file.path(), fault, kRebuild));
  }
  const int64_t expected = static_cast<int64_t>(kIndexHeaderBytes) +
                           h.documents * static_cast<int64_t>(sizeof(IndexRecord));
  if (file.size() != expected) {
    throw DataError(fmt::format(
        "{}: {} bytes, but {} documents make {}: {}; {}", file.path(), file.size(), h.documents,
        expected, file.size() < expected ? "it is truncated" : "something was added to it",
        kRebuild));
  }
  return h;
}

}  // namespace

IndexHeaderBytes encode_index_header(const IndexHeader& header) {
  const std::string fault = find_fault(header);
  ESPALIER_REQUIRE(fault.empty(), "index header: {}", fault);
  IndexHeaderBytes bytes{};
  std::memcpy(bytes.data(), kIndexMagic.data(), kIndexMagic.size());
  put_field(bytes, kVersionAt, kIndexFormatVersion);
  put_field(bytes, kHeaderBytesAt, static_cast<uint32_t>(kIndexHeaderBytes));
  put_field(bytes, kRecordBytesAt, static_cast<uint32_t>(sizeof(IndexRecord)));
  put_field(bytes, kDocumentsAt, header.documents);
  put_field(bytes, kTokensAt, header.tokens);
  put_field(bytes, kTextBytesAt, header.text_bytes);
  put_field(bytes, kTokenHeaderAt, header.token_header);
  put_field(bytes, kChecksumAt, header.checksum);
  put_field(bytes, kHeaderChecksumAt, hash_bytes(bytes.data(), kHeaderChecksumAt));
  return bytes;
}

std::string index_path(const std::string& token_path) {
  constexpr const char* kEnding = ".tok";
  const size_t at = token_path.size() < 4 ? std::string::npos : token_path.size() - 4;
  if (at != std::string::npos && token_path.compare(at, 4, kEnding) == 0) {
    return token_path.substr(0, at) + ".idx";
  }
  return token_path + ".idx";
}

ShardIndex::ShardIndex(const std::string& path, VerifyData verify)
    : file_(path), header_(decode(file_)) {
  // One record is looked at even so: it shows a file whose pages were never written.
  const int64_t end = record(header_.documents - 1).end;
  if (end != header_.tokens) {
    throw DataError(fmt::format("{}: its last document ends at token {}, but there are {}; {}",
                                path, end, header_.tokens, kRebuild));
  }
  if (verify == VerifyData::full) verify_records();
}

IndexRecord ShardIndex::record(int64_t i) const {
  ESPALIER_REQUIRE(i >= 0 && i < header_.documents, "document {} of {} in {}", i, header_.documents,
                   path());
  IndexRecord record;
  std::memcpy(&record, file_.data() + kIndexHeaderBytes + i * static_cast<int64_t>(sizeof record),
              sizeof record);
  // Every document before took a token, every one behind takes one.
  if (record.end <= i || record.end > header_.tokens - (header_.documents - 1 - i) ||
      record.text_bytes < 0) {
    throw DataError(fmt::format(
        "{}: document {} ends at token {} of {} and has {} bytes of text: the index is damaged; {}",
        path(), i, record.end, header_.tokens, record.text_bytes, kRebuild));
  }
  return record;
}

void ShardIndex::verify_records() const {
  const uint64_t found = hash_bytes(file_.data() + kIndexHeaderBytes,
                                    static_cast<size_t>(file_.size()) - kIndexHeaderBytes);
  if (found != header_.checksum) {
    throw DataError(fmt::format(
        "{}: its records are damaged (checksum {:016x}, but the bytes give {:016x}); {}", path(),
        header_.checksum, found, kRebuild));
  }
  int64_t end = 0;
  uint64_t text_bytes = 0;
  for (int64_t i = 0; i < header_.documents; ++i) {
    const IndexRecord at = record(i);
    if (at.end <= end) {
      throw DataError(fmt::format("{}: document {} ends at token {}, that before it at {}; {}",
                                  path(), i, at.end, end, kRebuild));
    }
    end = at.end;
    text_bytes += static_cast<uint64_t>(at.text_bytes);
  }
  if (text_bytes != static_cast<uint64_t>(header_.text_bytes)) {
    throw DataError(fmt::format("{}: its documents have {} bytes of text, its header says {}; {}",
                                path(), text_bytes, header_.text_bytes, kRebuild));
  }
}

}  // namespace espalier
