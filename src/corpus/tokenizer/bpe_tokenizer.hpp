// SPDX-License-Identifier: Apache-2.0
// The tokenizer of GPT-2 files and of tokenizer.json files of kind BPE.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "corpus/tokenizer.hpp"
#include "corpus/tokenizer/added_tokens.hpp"
#include "corpus/tokenizer/bpe_model.hpp"
#include "corpus/tokenizer/pre_tokenizer.hpp"
#include "corpus/tokenizer/text_normalizer.hpp"

namespace espalier {

/// How tokens become text.
struct DecodeRules {
  bool byte_alphabet = false;                                // tokens are written in it
  bool byte_fallback = false;                                // <0x00> to <0xFF> are bytes
  std::vector<std::pair<std::string, std::string>> replace;  // in each token, one after another
  std::string strip;                                         // taken from the beginning of a text,
  int64_t strip_most = 0;                                    // so many times at most
};

/// All that a file of such a tokenizer tells.
struct BpeDescription {
  std::string where;  // path, for messages
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  BpeTable table;
  std::vector<AddedToken> added;
  DecodeRules decode;
};

/// Encodes as the tokenizers library 0.23 does, id by id, without what its post-processors put
/// around a text. Text that is not valid UTF-8, which that library takes no part of: broken
/// sequences go byte for byte into the words of a byte-level tokenizer that does not normalise, and
/// stand between words; others see U+FFFD in their place.
class BpeTokenizer : public Tokenizer {
 public:
  /// Errors    DataError for tables that do not fit together, or an end-of-document token that is
  ///           not there or that text becomes
  BpeTokenizer(BpeDescription description, TokenizerDefinition definition);

  std::string name() const override { return name_; }
  int64_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_document() const override { return end_of_document_; }
  bool is_lossless() const override { return lossless_; }
  TokenizerDefinition definition() const override { return definition_; }
  void append_tokens(std::string_view text, std::vector<int32_t>& tokens) const override;
  /// Cuts at the ends of words where the pattern is GPT-2's, Llama 3's or Qwen 2's; other
  /// tokenizers take a text in one piece.
  size_t piece_end(std::string_view text, size_t most) const override;
  /// Errors    also DataError for an id between others that is no token
  void append_text(const int32_t* tokens, int64_t count, std::string& text) const override;

 private:
  void find_end_of_document(BpeDescription& description);
  void read_added(const BpeDescription& description);
  void read_texts(const BpeDescription& description);
  bool find_lossless(const BpeDescription& description) const;
  void append_valid(std::string_view text, bool first, std::vector<int32_t>& tokens) const;
  void append_ordinary(std::string_view text, bool first, std::vector<int32_t>& tokens) const;
  void append_words(std::string_view text, bool first, std::vector<int32_t>& tokens) const;
  bool is_cut(std::string_view text, size_t at) const;

  TokenizerDefinition definition_;
  std::string name_, where_;
  TextNormalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
  AddedTokens as_written_, normalised_;
  DecodeRules decode_;
  std::vector<std::string> texts_;  // of each id
  std::vector<bool> known_;
  int64_t vocab_size_ = 0;
  int32_t end_of_document_ = -1;
  bool lossless_ = false;
};

}  // namespace espalier
