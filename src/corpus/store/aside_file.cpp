// SPDX-License-Identifier: Apache-2.0
// Files written aside, flushed, then renamed.
#include "corpus/store/aside_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/durable_file.hpp"
#include "core/error.hpp"

namespace espalier {
namespace {

constexpr int64_t kStartBytes = int64_t{4} << 20;

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

AsideFile::AsideFile(const std::string& path) : path_(path), fd_(create_aside(path, aside_)) {}

AsideFile::~AsideFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!published_) ::unlink(aside_.c_str());
}

void AsideFile::fail(const char* what) const {
  const int code = errno;
  throw DataError(fmt::format("{}: cannot be {}: {}; {}", aside_, what, std::strerror(code),
                              code == ENOSPC || code == EDQUOT ? "make room on the disk"
                                                               : "check the disk and the folder"));
}

void AsideFile::write(const void* data, size_t bytes, int64_t offset) {
  ESPALIER_REQUIRE(fd_ >= 0, "{} is finished", path_);
  const auto* from = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd_, from, bytes, offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("written");
    from += done;
    bytes -= static_cast<size_t>(done);
    offset += done;
  }
#ifdef SYNC_FILE_RANGE_WRITE
  // The disk begins while more is made, so that finish() has little left to wait for. A file system
  // that cannot do so loses nothing but this.
  if (offset - started_ >= kStartBytes) {
    ::sync_file_range(fd_, started_, offset - started_, SYNC_FILE_RANGE_WRITE);
    started_ = offset;
  }
#endif
}

void AsideFile::finish() {
  ESPALIER_REQUIRE(fd_ >= 0, "{} is finished already", path_);
  if (::fsync(fd_) != 0) fail("flushed");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("closed");
}

void AsideFile::publish() {
  ESPALIER_REQUIRE(fd_ < 0 && !published_, "{} is not finished, or published already", path_);
  rename_durably(aside_, path_);
  published_ = true;
}

}  // namespace espalier
