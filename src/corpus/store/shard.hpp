// SPDX-License-Identifier: Apache-2.0
// Reading one shard of a store.
#pragma once

#include <memory>
#include <string>

#include "corpus/store/token_array.hpp"
#include "corpus/token_file.hpp"

namespace espalier {

/// A token file and its index, both mapped. `path` names the token file. VerifyData::full compares
/// the checksums of both and looks at the end of every document; header takes constant time.
/// Errors    DataError for missing, damaged, or unlike files
class Shard : public TokenArray {
 public:
  Shard(const std::string& path, VerifyData verify);
  ~Shard() override;
  const std::string& path() const override;
  int64_t tokens() const override;
  int64_t vocab_size() const override;
  int32_t end_of_document() const override;
  const std::string& tokenizer() const override;
  void read(int64_t begin, int64_t count, int32_t* out) const override;
  bool has_index() const override { return true; }
  int64_t documents() const override;
  int64_t document_begin(int64_t i) const override;

  uint64_t document_hash(int64_t i) const;  ///< XXH3-64, seed 0, of the document's text
  int64_t document_text_bytes(int64_t i) const;
  int64_t text_bytes() const;  ///< of all documents
  const TokenHeader& header() const;

  /// Errors    DataError unless each document ends with the end-of-document token
  void verify_ends() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace espalier
