// SPDX-License-Identifier: Apache-2.0
// Bytes of text files, plain, gzip or zstd, as a stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "corpus/source/decompressor.hpp"

namespace espalier {

/// Compressed data that are truncated, broken or followed by something else.
struct DamagedFile : DataError {
  DamagedFile(const std::string& path, const std::string& what, const std::string& remedy)
      : DataError(fmt::format("{}: {}; {}", path, what, remedy)), what_is_wrong(what) {}
  std::string what_is_wrong;  // with the byte in the file, without its path
};

/// Reads a file from a byte on. Compression is known by the first bytes, not by the name, and may
/// have several members. Memory does not depend on the size of the file.
/// Errors    DataError for a missing or unreadable file, a folder; DamagedFile
class TextReader {
 public:
  /// Bytes [begin, end) of a plain file, or up to its end if that comes first; a compressed one
  /// is always read whole.
  /// Errors    DataError if begin > 0 and the file is compressed
  explicit TextReader(const std::string& path, int64_t begin = 0, int64_t end = INT64_MAX);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// Reads at most `capacity` bytes of text; 0 only at the end. Where compressed data are damaged,
  /// all that could be decoded before is handed out first, then DamagedFile is thrown.
  size_t read(char* out, size_t capacity);

  Compression compression() const { return compression_; }
  bool is_gzip() const { return compression_ == Compression::gzip; }
  const std::string& path() const { return path_; }
  /// Bytes of the file that are used up, from its beginning.
  int64_t disk_position() const { return disk_position_ - static_cast<int64_t>(end_ - begin_); }
  /// Of the file; 0 for a pipe.
  int64_t disk_bytes() const { return disk_bytes_; }

 private:
  size_t read_file(unsigned char* out, size_t capacity);
  bool refill();  // false at the end of the file
  size_t decompress(char* out, size_t capacity);
  bool start_member();
  bool check_padding();
  bool set_damage(const std::string& what, const std::string& remedy);

  std::string path_;
  int64_t disk_bytes_ = 0;  // set when the file is opened
  int fd_ = -1;
  int64_t last_ = INT64_MAX;                 // byte of the file where reading stops
  int64_t disk_position_ = 0;                // bytes of the file before what is read next
  std::unique_ptr<unsigned char[]> buffer_;  // of the file as it is on disk
  size_t begin_ = 0, end_ = 0;               // what of it is not used yet
  Compression compression_ = Compression::none;
  std::unique_ptr<Decompressor> decompressor_;
  Decompressor::Step step_ = Decompressor::Step::more;
  std::unique_ptr<DamagedFile> damage_;  // thrown when nothing decoded is left
};

}  // namespace espalier
