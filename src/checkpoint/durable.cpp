// SPDX-License-Identifier: Apache-2.0
// Publishing a finished file by rename, with the flushes that make it last.
#include "checkpoint/durable.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.hpp"

namespace espalier {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_file(const std::string& path, const char* action, int error) {
  const char* remedy = error == ENOSPC || error == EDQUOT ? "; free some space" : "";
  throw DataError(fmt::format("{}: cannot {} ({}){}", path, action, std::strerror(error), remedy));
}

void flush_to_disk(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) fail_file(path, "open it to flush it", errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems offer no fsync of a folder: they order renames themselves.
  if (result != 0 && !((flags & O_DIRECTORY) && error == EINVAL))
    fail_file(path, "flush it to disk", error);
}

std::string folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void publish_file(const std::string& part, const std::string& path) {
  flush_to_disk(part, O_RDONLY);
  if (std::rename(part.c_str(), path.c_str()) != 0) fail_file(part, "rename it", errno);
  flush_to_disk(folder_of(path), O_RDONLY | O_DIRECTORY);
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
  if (!fs::exists(status)) throw DataError(fmt::format("{}: no such file; check the path", path));
  if (!fs::is_regular_file(status))
    throw DataError(fmt::format("{}: is not a regular file; name an HDF5 file", path));
  if (::access(path.c_str(), R_OK) != 0) fail_file(path, "read it", errno);
  const auto bytes = fs::file_size(path, error);
  if (error) fail_file(path, "find its size", error.value());
  return static_cast<int64_t>(bytes);
}

}  // namespace espalier
