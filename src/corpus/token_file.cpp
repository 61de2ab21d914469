// SPDX-License-Identifier: Apache-2.0
// Token files mapped into memory.
#include "corpus/token_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "corpus/hash.hpp"

namespace espalier {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int64_t regular_file_bytes(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw DataError(fmt::format("{}: cannot be examined: {}", path, std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode)) {
    throw DataError(fmt::format("{}: is a folder; name a token file in it", path));
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError(
        fmt::format("{}: not a regular file, so it cannot be mapped; copy it to one", path));
  }
  return status.st_size;
}

// Widens ids and returns the largest; one pass that the compiler can vectorise.
template <class Stored>
uint32_t widen(const unsigned char* from, int64_t count, int32_t* out) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    Stored id;
    std::memcpy(&id, from + i * static_cast<int64_t>(sizeof(Stored)), sizeof(Stored));
    largest = std::max(largest, static_cast<uint32_t>(id));
    out[i] = static_cast<int32_t>(id);
  }
  return largest;
}

}  // namespace

TokenFile::TokenFile(const std::string& path, VerifyData verify) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    throw DataError(fmt::format("{}: cannot be opened: {}; check the path and your rights to it",
                                path, std::strerror(errno)));
  }
  const int64_t size = regular_file_bytes(file.fd, path);
  bytes_ = static_cast<size_t>(size);
  if (bytes_ == 0) {
    throw DataError(
        fmt::format("{}: is empty (0 bytes); rebuild it with espalier corpus build", path));
  }
  void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) {
    throw DataError(
        fmt::format("{}: cannot be mapped ({} bytes): {}", path, bytes_, std::strerror(errno)));
  }
  data_ = static_cast<const unsigned char*>(map);
  try {
    header_ = decode_token_header(data_, std::min(bytes_, kTokenHeaderBytes), size, path);
    if (verify == VerifyData::full) verify_payload();
  } catch (...) {
    unmap();
    throw;
  }
}

TokenFile::~TokenFile() {
  unmap();
}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)),
      header_(std::move(other.header_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

TokenFile& TokenFile::operator=(TokenFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    header_ = std::move(other.header_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void TokenFile::unmap() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), bytes_);
  data_ = nullptr;
}

void TokenFile::read(int64_t begin, int64_t count, int32_t* out) const {
  ESPALIER_REQUIRE(begin >= 0 && count >= 0 && begin <= tokens() - count,
                   "tokens [{}, {} + {}) of {}, which has {}", begin, begin, count, path_,
                   tokens());
  const unsigned char* from = data_ + kTokenHeaderBytes + begin * header_.token_bytes();
  const uint32_t largest = header_.token_bytes() == 2 ? widen<uint16_t>(from, count, out)
                                                      : widen<uint32_t>(from, count, out);
  if (largest < header_.vocab_size) return;
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint32_t>(out[i]);
    if (id < header_.vocab_size) continue;
    throw DataError(fmt::format(
        "{}: token {} has id {}, but ids are below {}: the file is damaged; rebuild it with "
        "espalier corpus build, or copy it again",
        path_, begin + i, id, header_.vocab_size));
  }
}

void TokenFile::verify_payload() const {
  const size_t payload = bytes_ - kTokenHeaderBytes;
  const uint64_t found = hash_bytes(data_ + kTokenHeaderBytes, payload);
  if (found != header_.checksum) {
    throw DataError(fmt::format(
        "{}: its tokens are damaged (checksum {:016x}, but the bytes give {:016x}); copy the file "
        "again, or rebuild it with espalier corpus build",
        path_, header_.checksum, found));
  }
}

void require_same_tokenizer(const TokenFile& a, const TokenFile& b) {
  const TokenHeader &x = a.header(), &y = b.header();
  if (x.tokenizer == y.tokenizer && x.vocab_size == y.vocab_size &&
      x.end_of_document == y.end_of_document) {
    return;
  }
  throw DataError(fmt::format(
      "{}: made by tokenizer {} (vocab_size {}, end of document {}), but {} by {} ({}, {}); build "
      "both with the same tokenizer",
      b.path(), y.tokenizer, y.vocab_size, y.end_of_document, a.path(), x.tokenizer, x.vocab_size,
      x.end_of_document));
}

DocumentRange find_document(const TokenFile& file, int64_t index) {
  const auto end = static_cast<int32_t>(file.header().end_of_document);
  std::vector<int32_t> block(65536);
  DocumentRange range;
  int64_t document = 0;
  for (int64_t at = 0; at < file.tokens() && index >= 0;) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(block.size()), file.tokens() - at);
    file.read(at, count, block.data());
    for (int64_t i = 0; i < count; ++i) {
      if (block[static_cast<size_t>(i)] != end) continue;
      if (document == index) {
        range.end = at + i;
        return range;
      }
      ++document;
      range.begin = at + i + 1;
    }
    at += count;
  }
  throw DataError(
      fmt::format("{}: has no document {}; {}", file.path(), index,
                  file.header().documents == 0
                      ? std::string("it has none at all")
                      : fmt::format("its documents are 0 to {}", file.header().documents - 1)));
}

}  // namespace espalier
