// SPDX-License-Identifier: Apache-2.0
// Publishing finished files and folders by rename, with the flushes that make them last.
#include "core/durable_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace espalier {

namespace fs = std::filesystem;

namespace {

const char* remedy_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return "; free some space or choose another place";
    case EROFS:
    case EACCES:
    case EPERM: return "; see to your rights to the place, or choose another";
    case EIO: return "; see to the disk";
    case ENOENT: return "; check the path";
    default: return "";
  }
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A descriptor that closes itself.
struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

void write_all(int fd, const std::string& path, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t done = ::write(fd, text.data() + at, text.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_file(path, "write it", errno);
    at += static_cast<size_t>(done);
  }
}

// The folder is flushed by the rename that follows.
void write_and_flush(const std::string& path, const std::string& text) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.fd < 0) fail_file(path, "create it", errno);
  write_all(file.fd, path, text);
  if (::fsync(file.fd) != 0) fail_file(path, "flush it to disk", errno);
}

}  // namespace

void fail_file(const std::string& path, const std::string& action, int error) {
  throw DataError(
      fmt::format("{}: cannot {} ({}){}", path, action, std::strerror(error), remedy_of(error)));
}

void flush_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) fail_file(path, "open it to flush it", errno);
  if (::fsync(file.fd) != 0) fail_file(path, "flush it to disk", errno);
}

void flush_folder(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd < 0) fail_file(path, "open the folder to flush it", errno);
  if (::fsync(folder.fd) == 0) return;
  if (errno != EINVAL && errno != ENOTSUP) fail_file(path, "flush the folder to disk", errno);
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail_file(from, fmt::format("rename it to {}", to), errno);
  flush_folder(folder_of(to));
}

void publish_file(const std::string& part, const std::string& path) {
  flush_file(part);
  rename_durably(part, path);
}

void reserve_space(const std::string& path, int64_t bytes) {
#ifdef __linux__
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.fd < 0) fail_file(path, "open it to reserve space", errno);
  int result = 0;
  do result = ::fallocate(file.fd, FALLOC_FL_KEEP_SIZE, 0, bytes);
  while (result != 0 && errno == EINTR);
  const int error = errno;
  if (result == 0 || error == EOPNOTSUPP || error == ENOSYS) return;
  // Some file systems keep what they had taken before they found too little.
  struct stat found = {};
  if (::fstat(file.fd, &found) == 0 && ::ftruncate(file.fd, found.st_size) != 0)
    fail_file(path, "give back what was reserved", errno);
  fail_file(path, fmt::format("reserve {} bytes for it", bytes), error);
#else
  (void)path, (void)bytes;
#endif
}

void require_file_size_allowed(const std::string& path, int64_t bytes) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (static_cast<rlim_t>(bytes) > limit.rlim_cur)
    throw DataError(fmt::format(
        "{}: needs {} bytes, but this process may write files of at most {}; raise the limit "
        "(ulimit -f)",
        path, bytes, limit.rlim_cur));
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  try {
    write_and_flush(part, text);
    rename_durably(part, path);
  } catch (const DataError&) {
    ::unlink(part.c_str());
    throw;
  }
}

std::string read_text_file(const std::string& path, int64_t most_bytes) {
  const int64_t bytes = require_readable_file(path);
  if (bytes > most_bytes)
    throw DataError(fmt::format("{}: has {} bytes, more than the {} that are read of such a file",
                                path, bytes, most_bytes));
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) fail_file(path, "open it", errno);
  std::string text(static_cast<size_t>(bytes), '\0');
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t done = ::read(file.fd, text.data() + at, text.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_file(path, "read it", errno);
    if (done == 0) break;  // it became shorter meanwhile
    at += static_cast<size_t>(done);
  }
  text.resize(at);
  return text;
}

void require_writable_place(const std::string& path) {
  std::error_code error;
  const std::string folder = folder_of(path);
  if (!fs::is_directory(folder, error))
    throw DataError(fmt::format("{}: its folder {} does not exist; create it", path, folder));
  if (fs::is_directory(path, error))
    throw DataError(fmt::format("{}: is a folder; name a file", path));
}

int64_t require_readable_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    if (error && error.value() != ENOENT && error.value() != ENOTDIR)
      fail_file(path, "look at it", error.value());
    throw DataError(fmt::format("{}: no such file; check the path", path));
  }
  if (!fs::is_regular_file(status))
    throw DataError(fmt::format(
        "{}: is not a regular file but {}", path,
        fs::is_directory(status) ? "a folder; name a file in it" : "a device, a pipe or a socket"));
  if (::access(path.c_str(), R_OK) != 0) fail_file(path, "read it", errno);
  const auto bytes = fs::file_size(path, error);
  if (error) fail_file(path, "find its size", error.value());
  return static_cast<int64_t>(bytes);
}

}  // namespace espalier
