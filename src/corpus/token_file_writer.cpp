// SPDX-License-Identifier: Apache-2.0
// Token files written aside, flushed, then renamed.
#include "corpus/token_file_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/durable_file.hpp"
#include "core/error.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;  // stays in the second-level cache

struct Seen {
  uint32_t largest = 0;
  int64_t ends = 0;
};

// Narrows ids, and takes note of the largest and of the ends; one pass that can be vectorised.
template <class Stored>
Seen narrow(const int32_t* tokens, int64_t count, int32_t end, unsigned char* out) {
  Seen seen;
  int32_t ends = 0;  // a call handles at most kBufferBytes tokens
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<Stored>(tokens[i]);
    seen.largest = std::max(seen.largest, static_cast<uint32_t>(tokens[i]));
    ends += tokens[i] == end ? 1 : 0;
    std::memcpy(out + i * static_cast<int64_t>(sizeof(Stored)), &id, sizeof(Stored));
  }
  seen.ends = ends;
  return seen;
}

// A name that no other process has: create fails on one that exists.
int create_aside(const std::string& path, std::string& aside) {
  for (int number = 0;; ++number) {
    aside = fmt::format("{}.partial-{}-{}", path, ::getpid(), number);
    const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST) {
      throw DataError(
          fmt::format("{}: cannot be created: {}; check the folder and your rights to it", aside,
                      std::strerror(errno)));
    }
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer)
    : path_(path), buffer_(kBufferBytes) {
  header_.vocab_size = tokenizer.vocab_size();
  header_.end_of_document = tokenizer.end_of_document();
  header_.tokenizer = tokenizer.name();
  fd_ = create_aside(path, aside_);
}

TokenFileWriter::~TokenFileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!published_) ::unlink(aside_.c_str());
}

void TokenFileWriter::fail(const char* what) const {
  const int code = errno;
  throw DataError(fmt::format("{}: cannot be {}: {}; {}", aside_, what, std::strerror(code),
                              code == ENOSPC || code == EDQUOT ? "make room on the disk"
                                                               : "check the disk and the folder"));
}

void TokenFileWriter::write_all(const void* data, size_t bytes, int64_t offset) {
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd_, from, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("written");
    from += done;
    bytes -= static_cast<size_t>(done);
    offset += done;
  }
}

void TokenFileWriter::flush() {
  hash_.update(buffer_.data(), buffered_);
  write_all(buffer_.data(), buffered_, written_);
  written_ += static_cast<int64_t>(buffered_);
  buffered_ = 0;
}

void TokenFileWriter::append(const int32_t* tokens, int64_t count) {
  ESPALIER_REQUIRE(!finished_, "{} is finished", path_);
  const int64_t width = header_.token_bytes();
  const auto end = static_cast<int32_t>(header_.end_of_document);
  while (count > 0) {
    const int64_t room = static_cast<int64_t>(kBufferBytes - buffered_) / width;
    const int64_t part = std::min(room, count);
    unsigned char* out = buffer_.data() + buffered_;
    const Seen seen = width == 2 ? narrow<uint16_t>(tokens, part, end, out)
                                 : narrow<uint32_t>(tokens, part, end, out);
    ESPALIER_REQUIRE(part == 0 || seen.largest < header_.vocab_size, "token id {} of {} in {}",
                     static_cast<int32_t>(seen.largest), header_.vocab_size, path_);
    header_.documents += seen.ends;
    header_.tokens += part;
    buffered_ += static_cast<size_t>(part * width);
    tokens += part;
    count -= part;
    if (buffered_ == kBufferBytes) flush();
  }
}

void TokenFileWriter::finish() {
  ESPALIER_REQUIRE(!finished_, "{} is finished already", path_);
  flush();
  header_.checksum = hash_.value();
  const TokenHeaderBytes bytes = encode_token_header(header_);
  write_all(bytes.data(), bytes.size(), 0);
  if (::fsync(fd_) != 0) fail("flushed");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("closed");
  finished_ = true;
}

void TokenFileWriter::publish() {
  ESPALIER_REQUIRE(finished_ && !published_, "{} is not finished, or published already", path_);
  rename_durably(aside_, path_);
  published_ = true;
}

}  // namespace espalier
