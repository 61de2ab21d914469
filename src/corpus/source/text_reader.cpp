// SPDX-License-Identifier: Apache-2.0
// Plain files by read(2), compressed ones through a Decompressor.
#include "corpus/source/text_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace espalier {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

int open_text(const std::string& path, int64_t& bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const char* remedy = errno == ENOENT ? "check the path" : "check your rights to it";
    throw DataError(
        fmt::format("{}: cannot be opened: {}; {}", path, std::strerror(errno), remedy));
  }
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (known && !S_ISDIR(status.st_mode)) {
    bytes = status.st_size;
    return fd;
  }
  const int code = errno;
  ::close(fd);
  if (!known) throw DataError(fmt::format("{}: cannot be examined: {}", path, std::strerror(code)));
  throw DataError(
      fmt::format("{}: is a folder; name the files in it, for example {}/*.txt.gz", path, path));
}

}  // namespace

TextReader::TextReader(const std::string& path, int64_t begin, int64_t end)
    : path_(path), fd_(open_text(path, disk_bytes_)), buffer_(new unsigned char[kBufferBytes]) {
  try {
    // A pipe may give one byte at a time.
    while (end_ < kCompressionMagicBytes && refill()) {
    }
    compression_ = find_compression(buffer_.get(), end_);
    if (compression_ != Compression::none) decompressor_ = make_decompressor(compression_);
    last_ = decompressor_ != nullptr ? INT64_MAX : end;
    end_ = static_cast<size_t>(std::min(static_cast<int64_t>(end_), last_));
    if (begin > 0) {
      if (decompressor_ != nullptr) {
        throw DataError(
            fmt::format("{}: is {} data now, which is read from its beginning only; "
                        "leave the inputs alone while they are read",
                        path_, compression_name(compression_)));
      }
      begin_ = end_ = 0;
      disk_position_ = begin;
      if (::lseek(fd_, begin, SEEK_SET) != begin) {
        throw DataError(fmt::format("{}: byte {} cannot be reached: {}; name a regular file", path_,
                                    begin, std::strerror(errno)));
      }
    }
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TextReader::~TextReader() {
  ::close(fd_);
}

size_t TextReader::read_file(unsigned char* out, size_t capacity) {
  const int64_t left = std::max<int64_t>(last_ - disk_position_, 0);
  capacity = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(capacity), left));
  if (capacity == 0) return 0;
  for (;;) {
    const ssize_t got = ::read(fd_, out, std::min<size_t>(capacity, SSIZE_MAX));
    if (got >= 0) {
      disk_position_ += got;
      return static_cast<size_t>(got);
    }
    if (errno == EINTR) continue;
    throw DataError(
        fmt::format("{}: cannot be read at byte {}: {}; check the disk or copy the file "
                    "again",
                    path_, disk_position_, std::strerror(errno)));
  }
}

bool TextReader::refill() {
  if (begin_ == end_) begin_ = end_ = 0;
  const size_t got = read_file(buffer_.get() + end_, kBufferBytes - end_);
  end_ += got;
  return got > 0;
}

size_t TextReader::read(char* out, size_t capacity) {
  if (capacity == 0) return 0;
  if (decompressor_ != nullptr) {
    const size_t got = decompress(out, capacity);
    if (got == 0 && damage_ != nullptr) throw DamagedFile(*damage_);
    return got;
  }
  if (begin_ == end_) return read_file(reinterpret_cast<unsigned char*>(out), capacity);
  const size_t count = std::min(capacity, end_ - begin_);
  std::memcpy(out, buffer_.get() + begin_, count);
  begin_ += count;
  return count;
}

// Always false: nothing more can be read.
bool TextReader::set_damage(const std::string& what, const std::string& remedy) {
  const std::string place =
      fmt::format("{} data {} at byte {}", compression_name(compression_), what, disk_position());
  damage_ = std::make_unique<DamagedFile>(path_, place, remedy);
  return false;
}

// Between members: true if another one begins, false at the end of the file and for damage.
bool TextReader::start_member() {
  if (begin_ == end_ && !refill()) return false;
  if (is_gzip() && buffer_[begin_] == 0) return check_padding();
  if (!decompressor_->start_member(buffer_[begin_])) {
    return set_damage(
        fmt::format("is followed by bytes that are not {}", compression_name(compression_)),
        "cut them off, or compress the whole text again");
  }
  step_ = Decompressor::Step::more;
  return true;
}

// Tapes and block devices pad with zeros, which gzip(1) accepts too. Always false.
bool TextReader::check_padding() {
  do {
    for (; begin_ < end_; ++begin_) {
      if (buffer_[begin_] != 0) {
        return set_damage("is followed by zeros and then by other bytes",
                          "cut them off, or compress the whole text again");
      }
    }
  } while (refill());
  return false;
}

size_t TextReader::decompress(char* out, size_t capacity) {
  Decompressor::Buffers b = {nullptr, 0, out, capacity};
  while (b.out_bytes > 0 && damage_ == nullptr) {
    if (step_ == Decompressor::Step::between && !start_member()) break;
    const bool at_end = begin_ == end_ && !refill();
    b.in = buffer_.get() + begin_;
    b.in_bytes = end_ - begin_;
    const size_t before = b.out_bytes;
    const std::string fault = decompressor_->run(b, step_);
    begin_ = end_ - b.in_bytes;
    if (!fault.empty()) {
      set_damage(fault, "copy or download it again");
    } else if (at_end && b.out_bytes == before && step_ == Decompressor::Step::more) {
      // Without input the decompressor may still hold output, but only so long as it gives some.
      set_damage("ends in the middle: the file is truncated", "copy or download it again");
    }
  }
  return capacity - b.out_bytes;
}

}  // namespace espalier
