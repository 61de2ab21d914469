// SPDX-License-Identifier: Apache-2.0
// Writing token files as a stream; a file gets its name only when it is whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus/hash.hpp"
#include "corpus/store/aside_file.hpp"
#include "corpus/token_header.hpp"

namespace espalier {

class Tokenizer;

/// Writes one token file under a name of its own beside `path` (path.partial-<process>-<number>),
/// and renames it when asked. Without publish, the destructor removes it again; a process that is
/// killed leaves it behind, and nothing reads it.
/// Errors    DataError if the file cannot be created, written, flushed or renamed
class TokenFileWriter {
 public:
  TokenFileWriter(const std::string& path, const Tokenizer& tokenizer);
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Appends ids; each end-of-document id counts a document.
  /// Errors    Internal if an id is outside [0, vocab_size)
  void append(const int32_t* tokens, int64_t count);

  /// Writes the header and flushes everything to the disk. Nothing may be appended afterwards.
  /// Errors    Internal if no token was written
  void finish();

  /// Gives the finished file its name, replacing what had it.
  void publish() { file_.publish(); }

  const std::string& path() const { return file_.path(); }
  const std::string& aside() const { return file_.aside(); }  ///< its name until publish
  const TokenHeader& header() const { return header_; }  ///< counts so far; checksum after finish

 private:
  void flush();

  AsideFile file_;
  TokenHeader header_;
  RunningHash hash_;
  std::vector<unsigned char> buffer_;
  size_t buffered_ = 0;  // bytes
  int64_t written_ = static_cast<int64_t>(kTokenHeaderBytes);
  bool finished_ = false;
};

}  // namespace espalier
