// SPDX-License-Identifier: Apache-2.0
// A file that is written under a name of its own and gets its final name only when it is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace espalier {

/// Writes PATH.partial-<process>-<number> beside `path`. Without publish the destructor removes
/// it again; a process that is killed leaves it behind, and nothing reads it.
/// Errors    DataError if the file cannot be created, written, flushed or renamed
class AsideFile {
 public:
  explicit AsideFile(const std::string& path);
  ~AsideFile();
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;

  void write(const void* data, size_t bytes, int64_t offset);
  void finish();   ///< flushes to the disk and closes; no write afterwards
  void publish();  ///< renames, replacing what had the name

  const std::string& path() const { return path_; }    ///< the final name
  const std::string& aside() const { return aside_; }  ///< the present one, until publish

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_, aside_;
  int fd_ = -1;
  int64_t started_ = 0;  // bytes that the disk was told to begin with
  bool published_ = false;
};

}  // namespace espalier
