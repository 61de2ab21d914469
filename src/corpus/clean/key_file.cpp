// SPDX-License-Identifier: Apache-2.0
// Key files: header to bytes and back, mapping, and the checks before a record is believed.
#include "corpus/clean/key_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/header_fields.hpp"

namespace espalier {
namespace {

constexpr char kMagic[8] = {'E', 'S', 'P', 'K', 'E', 'Y', 'S', '\n'};
constexpr size_t kVersionAt = 8, kHeaderBytesAt = 12, kDocumentsAt = 16, kNearRecordsAt = 24,
                 kBandsAt = 32, kRowsAt = 40, kShingleAt = 48, kSimilarityAt = 56,
                 kBlockChecksumAt = 64, kHeaderChecksumAt = 120;
constexpr const char* kRemedy = "remove it and start the build again, which makes it anew";
constexpr int64_t kSignatureBytes = sizeof(Signature);

[[noreturn]] void fail_key_file(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}; {}", path, what, kRemedy));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// Counts for which no place in the file can overflow.
bool is_possible(const KeyHeader& h) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 4096;
  if (h.documents < 0 || h.documents > most || h.near_records < 0 || h.near_records > most)
    return false;
  if (h.bands == 0) return h.rows == 0 && h.shingle == 0 && h.near_records == 0;
  return h.bands > 0 && h.rows > 0 && h.shingle > 0 && h.bands <= kSignatureValues &&
         h.rows <= kSignatureValues / h.bands && h.near_records % h.bands == 0 &&
         h.near_records / h.bands <= h.documents;
}

KeyHeader decode(const unsigned char* bytes, const std::string& path) {
  if (std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0)
    fail_key_file(path, "is not a file of keys (its first bytes differ from the mark of one)");
  const uint64_t stored = get_field<uint64_t>(bytes, kHeaderChecksumAt);
  const uint64_t found = hash_bytes(bytes, kHeaderChecksumAt);
  if (stored != found)
    fail_key_file(path, fmt::format("its header is damaged (checksum {:016x}, but its bytes give "
                                    "{:016x})",
                                    stored, found));
  if (get_field<uint32_t>(bytes, kVersionAt) != kKeyFormatVersion ||
      get_field<uint32_t>(bytes, kHeaderBytesAt) != kKeyHeaderBytes)
    fail_key_file(path, fmt::format("format version {} with a header of {} bytes, but this program "
                                    "reads version {} with {}",
                                    get_field<uint32_t>(bytes, kVersionAt),
                                    get_field<uint32_t>(bytes, kHeaderBytesAt), kKeyFormatVersion,
                                    kKeyHeaderBytes));
  KeyHeader h;
  h.documents = get_field<int64_t>(bytes, kDocumentsAt);
  h.near_records = get_field<int64_t>(bytes, kNearRecordsAt);
  h.bands = get_field<int64_t>(bytes, kBandsAt);
  h.rows = get_field<int64_t>(bytes, kRowsAt);
  h.shingle = get_field<int64_t>(bytes, kShingleAt);
  h.similarity = get_field<double>(bytes, kSimilarityAt);
  h.block_checksum = get_field<uint64_t>(bytes, kBlockChecksumAt);
  if (!is_possible(h)) fail_key_file(path, "its header holds counts that cannot be");
  return h;
}

// First of `count` sorted records whose key lies in `range` or after it.
template <class Record, class Key>
int64_t find_first(const Record* records, int64_t count, int64_t range, int64_t ranges, Key key) {
  return std::partition_point(
             records, records + count,
             [&](const Record& r) { return range_of_key(key(r), ranges) < range; }) -
         records;
}

}  // namespace

int64_t KeyHeader::signature_bytes() const {
  return is_near() ? documents * kSignatureBytes : 0;
}
int64_t KeyHeader::exact_at() const {
  return static_cast<int64_t>(kKeyHeaderBytes) + signature_bytes();
}
int64_t KeyHeader::near_at() const {
  return exact_at() + documents * static_cast<int64_t>(sizeof(ExactRecord));
}
int64_t KeyHeader::checksums_at() const {
  return near_at() + near_records * static_cast<int64_t>(sizeof(NearRecord));
}
int64_t KeyHeader::blocks() const {
  const int64_t payload = checksums_at() - static_cast<int64_t>(kKeyHeaderBytes);
  return (payload + kKeyBlockBytes - 1) / kKeyBlockBytes;
}
int64_t KeyHeader::file_bytes() const {
  return checksums_at() + blocks() * static_cast<int64_t>(sizeof(uint64_t));
}

KeyHeader key_header_of(const CleanConfig& config) {
  KeyHeader h;
  if (config.deduplicate != Deduplication::near) return h;
  const BandChoice choice = choose_bands(config.similarity);
  h.bands = choice.bands;
  h.rows = choice.rows;
  h.shingle = config.shingle;
  h.similarity = config.similarity;
  return h;
}

KeyHeaderBytes encode_key_header(const KeyHeader& h) {
  ESPALIER_REQUIRE(is_possible(h), "key header of {} documents", h.documents);
  KeyHeaderBytes bytes{};
  std::copy(std::begin(kMagic), std::end(kMagic), bytes.begin());
  put_field(bytes, kVersionAt, kKeyFormatVersion);
  put_field(bytes, kHeaderBytesAt, static_cast<uint32_t>(kKeyHeaderBytes));
  put_field(bytes, kDocumentsAt, h.documents);
  put_field(bytes, kNearRecordsAt, h.near_records);
  put_field(bytes, kBandsAt, h.bands);
  put_field(bytes, kRowsAt, h.rows);
  put_field(bytes, kShingleAt, h.shingle);
  put_field(bytes, kSimilarityAt, h.similarity);
  put_field(bytes, kBlockChecksumAt, h.block_checksum);
  put_field(bytes, kHeaderChecksumAt, hash_bytes(bytes.data(), kHeaderChecksumAt));
  return bytes;
}

KeyHeader read_key_header(const std::string& path) {
  const int64_t size = require_readable_file(path);
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail_file(path, "open it", errno);
  KeyHeaderBytes bytes{};
  const ssize_t got = ::pread(file.fd, bytes.data(), bytes.size(), 0);
  if (got < 0) fail_file(path, "read it", errno);
  if (got < static_cast<ssize_t>(bytes.size()))
    fail_key_file(path,
                  fmt::format("is cut off inside its header ({} bytes of {})", got, bytes.size()));
  const KeyHeader header = decode(bytes.data(), path);
  if (size != header.file_bytes())
    fail_key_file(path,
                  fmt::format("has {} bytes, but {} documents and {} near records make {}", size,
                              header.documents, header.near_records, header.file_bytes()));
  return header;
}

KeyFile::KeyFile(const std::string& path, const CleanConfig& config)
    : header_(read_key_header(path)), file_(path) {
  const KeyHeader wanted = key_header_of(config);
  if (header_.bands != wanted.bands || header_.rows != wanted.rows ||
      header_.shingle != wanted.shingle || header_.similarity != wanted.similarity)
    fail(
        fmt::format("was made with other settings of deduplication (similarity {}, shingle {}; the "
                    "deck has {}, {})",
                    header_.similarity, header_.shingle, wanted.similarity, wanted.shingle));
  const unsigned char* const list = file_.data() + header_.checksums_at();
  if (hash_bytes(list, static_cast<size_t>(header_.blocks()) * 8) != header_.block_checksum)
    fail("its list of checksums is damaged");
}

const ExactRecord* KeyFile::exact() const {
  return reinterpret_cast<const ExactRecord*>(file_.data() + header_.exact_at());
}

const NearRecord* KeyFile::near_records() const {
  return reinterpret_cast<const NearRecord*>(file_.data() + header_.near_at());
}

const uint16_t* KeyFile::signature(int64_t document) const {
  return reinterpret_cast<const uint16_t*>(file_.data() + kKeyHeaderBytes +
                                           document * kSignatureBytes);
}

Span KeyFile::exact_range(int64_t range, int64_t ranges) const {
  const auto key = [](const ExactRecord& r) { return r.high; };
  const Span span{find_first(exact(), header_.documents, range, ranges, key),
                  find_first(exact(), header_.documents, range + 1, ranges, key)};
  constexpr auto bytes = static_cast<int64_t>(sizeof(ExactRecord));
  if (span.begin > span.end) fail("its records are not in order: it is damaged");
  verify_bytes({header_.exact_at() + span.begin * bytes, header_.exact_at() + span.end * bytes});
  for (int64_t i = span.begin; i < span.end; ++i) {
    if (exact()[i].index >= static_cast<uint64_t>(header_.documents) ||
        range_of_key(exact()[i].high, ranges) != range)
      fail(fmt::format("exact record {} cannot be: it is damaged", i));
  }
  return span;
}

Span KeyFile::near_range(int64_t range, int64_t ranges) const {
  const auto key = [](const NearRecord& r) { return r.key; };
  const Span span{find_first(near_records(), header_.near_records, range, ranges, key),
                  find_first(near_records(), header_.near_records, range + 1, ranges, key)};
  constexpr auto bytes = static_cast<int64_t>(sizeof(NearRecord));
  if (span.begin > span.end) fail("its records are not in order: it is damaged");
  verify_bytes({header_.near_at() + span.begin * bytes, header_.near_at() + span.end * bytes});
  for (int64_t i = span.begin; i < span.end; ++i) {
    if (near_records()[i].index >= static_cast<uint64_t>(header_.documents) ||
        range_of_key(near_records()[i].key, ranges) != range)
      fail(fmt::format("near record {} cannot be: it is damaged", i));
  }
  return span;
}

void KeyFile::verify_signatures(int64_t range, int64_t ranges) const {
  const int64_t bytes = header_.signature_bytes();
  // Parts of whole blocks, so that none is read twice.
  const int64_t blocks = (bytes + kKeyBlockBytes - 1) / kKeyBlockBytes;
  const int64_t quotient = blocks / ranges, rest = blocks % ranges;
  const auto first = [&](int64_t r) { return r * quotient + std::min(r, rest); };
  const auto start = static_cast<int64_t>(kKeyHeaderBytes);
  verify_bytes({start + std::min(first(range) * kKeyBlockBytes, bytes),
                start + std::min(first(range + 1) * kKeyBlockBytes, bytes)});
}

void KeyFile::verify_bytes(Span span) const {
  if (span.begin == span.end) return;
  const auto start = static_cast<int64_t>(kKeyHeaderBytes);
  const int64_t first = (span.begin - start) / kKeyBlockBytes;
  const int64_t last = (span.end - start - 1) / kKeyBlockBytes;
  for (int64_t block = first; block <= last; ++block) {
    const int64_t begin = start + block * kKeyBlockBytes;
    const int64_t end = std::min(begin + kKeyBlockBytes, header_.checksums_at());
    const auto stored =
        get_field<uint64_t>(file_.data() + header_.checksums_at(), static_cast<size_t>(block) * 8);
    const uint64_t found = hash_bytes(file_.data() + begin, static_cast<size_t>(end - begin));
    if (stored != found)
      fail(fmt::format("bytes {} to {} are damaged (checksum {:016x}, but they give {:016x})",
                       begin, end - 1, stored, found));
  }
}

void KeyFile::fail(const std::string& what) const {
  fail_key_file(path(), what);
}

int64_t range_of_key(uint64_t key, int64_t ranges) {
  return static_cast<int64_t>(
      (static_cast<unsigned __int128>(key) * static_cast<uint64_t>(ranges)) >> 64);
}

}  // namespace espalier
