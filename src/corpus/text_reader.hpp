// SPDX-License-Identifier: Apache-2.0
// Bytes of text files, plain or gzip, as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace espalier {

/// Reads a file from its beginning. Gzip is known by its first bytes, not by its name, and may
/// have several members. Memory does not depend on the size of the file.
/// Errors    DataError for a missing or unreadable file, a folder, and truncated or damaged gzip
class TextReader {
 public:
  explicit TextReader(const std::string& path);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// Reads at most `capacity` bytes of text; 0 only at the end.
  size_t read(char* out, size_t capacity);

  bool is_gzip() const { return inflater_ != nullptr; }
  const std::string& path() const { return path_; }

 private:
  struct Inflater;

  size_t read_file(unsigned char* out, size_t capacity);
  bool refill();  // false at the end of the file
  size_t read_gzip(char* out, size_t capacity);
  bool start_member();
  void check_padding();
  [[noreturn]] void fail_gzip(const std::string& what, const std::string& remedy) const;

  std::string path_;
  int fd_ = -1;
  std::unique_ptr<unsigned char[]> buffer_;  // of the file as it is on disk
  size_t begin_ = 0, end_ = 0;               // what of it is not used yet
  int64_t file_bytes_ = 0;                   // read from the file so far
  std::unique_ptr<Inflater> inflater_;       // gzip only
};

}  // namespace espalier
