// SPDX-License-Identifier: Apache-2.0
// What the files of other programs have in common: ids in a row, from some byte on.
#pragma once

#include <string>

#include "corpus/store/foreign_files.hpp"
#include "corpus/store/mapped_file.hpp"
#include "corpus/store/stored_ids.hpp"

namespace espalier {

class ForeignFile : public TokenArray {
 public:
  /// Ids of `type` from byte `offset` to the end of the file.
  ForeignFile(MappedFile file, IdType type, int64_t offset, const ForeignRules& rules);

  const std::string& path() const override { return file_.path(); }
  int64_t tokens() const override { return tokens_; }
  int64_t vocab_size() const override { return 0; }
  int32_t end_of_document() const override { return rules_.end_of_document; }
  const std::string& tokenizer() const override { return none_; }
  void read(int64_t begin, int64_t count, int32_t* out) const override;
  bool has_index() const override { return false; }
  int64_t documents() const override { return 0; }
  int64_t document_begin(int64_t i) const override;

  /// Reads all ids.
  /// Errors    DataError for the first that is out of range
  void verify_ids() const;

 protected:
  const ForeignRules& rules() const { return rules_; }
  IdType type() const { return type_; }

 private:
  MappedFile file_;
  IdType type_;
  int64_t offset_, tokens_;
  ForeignRules rules_;
  std::string none_;
};

}  // namespace espalier
