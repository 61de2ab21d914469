// SPDX-License-Identifier: Apache-2.0
// Plain files by read(2), gzip by zlib.
#include "corpus/text_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

int open_text(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const char* remedy = errno == ENOENT ? "check the path" : "check your rights to it";
    throw DataError(
        fmt::format("{}: cannot be opened: {}; {}", path, std::strerror(errno), remedy));
  }
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  if (known && !S_ISDIR(status.st_mode)) return fd;
  const int code = errno;
  ::close(fd);
  if (!known) throw DataError(fmt::format("{}: cannot be examined: {}", path, std::strerror(code)));
  throw DataError(
      fmt::format("{}: is a folder; name the files in it, for example {}/*.txt.gz", path, path));
}

}  // namespace

struct TextReader::Inflater {
  Inflater() {
    // 16 + window bits: gzip framing, whose checksum zlib compares.
    if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { ::inflateEnd(&stream); }
  z_stream stream{};
  bool in_member = true;
};

TextReader::TextReader(const std::string& path)
    : path_(path), fd_(open_text(path)), buffer_(new unsigned char[kBufferBytes]) {
  try {
    // A pipe may give one byte at a time.
    while (end_ < 2 && refill()) {
    }
    if (end_ >= 2 && buffer_[0] == 0x1f && buffer_[1] == 0x8b) {
      inflater_ = std::make_unique<Inflater>();
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
  for (;;) {
    const ssize_t got = ::read(fd_, out, std::min<size_t>(capacity, SSIZE_MAX));
    if (got >= 0) {
      file_bytes_ += got;
      return static_cast<size_t>(got);
    }
    if (errno == EINTR) continue;
    throw DataError(
        fmt::format("{}: cannot be read at byte {}: {}; check the disk or copy the file "
                    "again",
                    path_, file_bytes_, std::strerror(errno)));
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
  if (is_gzip()) return read_gzip(out, capacity);
  if (begin_ == end_) return read_file(reinterpret_cast<unsigned char*>(out), capacity);
  const size_t count = std::min(capacity, end_ - begin_);
  std::memcpy(out, buffer_.get() + begin_, count);
  begin_ += count;
  return count;
}

void TextReader::fail_gzip(const std::string& what, const std::string& remedy) const {
  throw DataError(fmt::format("{}: gzip data {} at byte {}; {}", path_, what,
                              file_bytes_ - static_cast<int64_t>(end_ - begin_), remedy));
}

// Between members: true if another one begins, false at the end of the file.
bool TextReader::start_member() {
  if (begin_ == end_ && !refill()) return false;
  if (buffer_[begin_] == 0) {
    check_padding();
    return false;
  }
  if (buffer_[begin_] != 0x1f) {
    fail_gzip("is followed by bytes that are not gzip",
              "cut them off, or compress the whole text again");
  }
  ::inflateReset(&inflater_->stream);
  inflater_->in_member = true;
  return true;
}

// Tapes and block devices pad with zeros, which gzip(1) accepts too.
void TextReader::check_padding() {
  do {
    for (; begin_ < end_; ++begin_) {
      if (buffer_[begin_] != 0) {
        fail_gzip("is followed by zeros and then by other bytes",
                  "cut them off, or compress the whole text again");
      }
    }
  } while (refill());
}

size_t TextReader::read_gzip(char* out, size_t capacity) {
  z_stream& stream = inflater_->stream;
  capacity = std::min<size_t>(capacity, UINT_MAX);
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(capacity);
  while (stream.avail_out > 0) {
    if (!inflater_->in_member && !start_member()) break;
    if (begin_ == end_ && !refill()) {
      fail_gzip("ends in the middle: the file is truncated", "copy or download it again");
    }
    stream.next_in = buffer_.get() + begin_;
    stream.avail_in = static_cast<uInt>(end_ - begin_);
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    begin_ = end_ - stream.avail_in;
    if (code == Z_STREAM_END) {
      inflater_->in_member = false;
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail_gzip(fmt::format("is damaged ({})", stream.msg != nullptr ? stream.msg : "bad stream"),
                "copy or download it again");
    }
  }
  return capacity - stream.avail_out;
}

}  // namespace espalier
