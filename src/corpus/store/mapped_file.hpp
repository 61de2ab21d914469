// SPDX-License-Identifier: Apache-2.0
// A regular file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace espalier {

/// All bytes of a file, read-only. Opening takes no time that grows with its size. The file must
/// not be changed in place while it is mapped; replacing it by rename is safe.
/// Errors    DataError naming the file: missing, not readable, a folder or device, empty
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const unsigned char* data() const { return data_; }
  int64_t size() const { return static_cast<int64_t>(bytes_); }

 private:
  void unmap();

  std::string path_;
  const unsigned char* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace espalier
