// SPDX-License-Identifier: Apache-2.0
// Mapping files, with an error for everything that cannot be mapped.
#include "corpus/store/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"

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

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) {
    throw DataError(fmt::format("{}: cannot be opened: {}; check the path and your rights to it",
                                path, std::strerror(errno)));
  }
  bytes_ = static_cast<size_t>(regular_file_bytes(file.fd, path));
  if (bytes_ == 0) {
    throw DataError(
        fmt::format("{}: is empty (0 bytes); rebuild it with espalier corpus build", path));
  }
  void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.fd, 0);
  if (map == MAP_FAILED) {
    throw DataError(fmt::format("{}: cannot be mapped ({} bytes): {}{}", path, bytes_,
                                std::strerror(errno),
                                errno == ENOMEM ? "; raise vm.max_map_count or ulimit -v" : ""));
  }
  data_ = static_cast<const unsigned char*>(map);
}

MappedFile::~MappedFile() {
  unmap();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void MappedFile::unmap() {
  if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), bytes_);
  data_ = nullptr;
}

}  // namespace espalier
