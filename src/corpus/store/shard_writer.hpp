// SPDX-License-Identifier: Apache-2.0
// Writing one shard of a store: its token file and its index of documents.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "corpus/store/store_manifest.hpp"

namespace espalier {

class Tokenizer;

/// Writes PATH and its index (the same name with .idx). Files are written aside and flushed;
/// publish() gives both their names. A process that dies leaves no file under the final names.
/// Errors    DataError if a file cannot be created, written, flushed or renamed
class ShardWriter {
 public:
  ShardWriter(const std::string& path, const Tokenizer& tokenizer);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// Tokens of the document that is being written, without its end-of-document token.
  void append(const int32_t* tokens, int64_t count);
  /// Ends the document; `hash` is the XXH3-64, seed 0, of its text, `text_bytes` the text's length.
  void end_document(uint64_t hash, int64_t text_bytes);

  int64_t documents() const;
  int64_t tokens() const;  ///< with end-of-document tokens

  /// Counts and checksums; source and stream are left to the caller. file is `path`. Without a
  /// document there is no file, and the record's counts are 0.
  ShardRecord finish();
  void publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
