// SPDX-License-Identifier: Apache-2.0
// Tokenizers of sentencepiece .model files.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/tokenizer.hpp"
#include "corpus/tokenizer/added_tokens.hpp"
#include "corpus/tokenizer/sentencepiece_model.hpp"
#include "corpus/tokenizer/word_cache.hpp"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace espalier {

/// Encodes by the sentencepiece library. Where the model normalises nothing and no piece goes on
/// behind a blank, the text is cut before blanks, and words met before come from a cache; the ids
/// are those of the library for the whole text. (A unigram model's are those of exact sums: the
/// library's own sums, in single precision over a whole line, may decide near ties otherwise.)
///
/// A model that normalises nothing, puts no blank in front and has all bytes is lossless: broken
/// UTF-8 and U+2581, which would come back as a blank, become bytes. Other models see U+FFFD for
/// broken sequences. Models that normalise are given at most about 1 MiB at once, cut before line
/// feeds, and what is alone longer, at characters.
class SentencePieceTokenizer : public Tokenizer {
 public:
  /// `where` begins the messages of errors.
  /// Errors    DataError for no model, or an end_of_document that is no control symbol of it
  SentencePieceTokenizer(TokenizerDefinition definition, const std::string& where);
  ~SentencePieceTokenizer() override;

  std::string name() const override { return name_; }
  int64_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_document() const override { return end_of_document_; }
  bool is_lossless() const override { return lossless_; }
  TokenizerDefinition definition() const override { return definition_; }
  void append_tokens(std::string_view text, std::vector<int32_t>& tokens) const override;
  size_t piece_end(std::string_view text, size_t most) const override;
  void append_text(const int32_t* tokens, int64_t count, std::string& text) const override;

 private:
  void read_pieces(const SentencePieceModel& model, const std::string& where);
  void find_end_of_document(const SentencePieceModel& model, const std::string& where);
  void append_ordinary(std::string_view text, bool first, std::vector<int32_t>& tokens) const;
  void append_lossless(std::string_view text, std::vector<int32_t>& tokens) const;
  void append_bytes(std::string_view bytes, std::vector<int32_t>& tokens) const;
  void append_words(std::string_view text, std::vector<int32_t>& tokens) const;
  void append_word(std::string_view word, std::vector<int32_t>& tokens) const;
  void append_by_library(std::string_view text, std::vector<int32_t>& tokens) const;
  void encode(std::string_view text, std::vector<int32_t>& tokens) const;
  size_t next_cut(std::string_view text, size_t from) const;

  TokenizerDefinition definition_;
  std::string name_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  std::vector<std::string> texts_;  // of each id
  std::array<int32_t, 256> byte_ids_{};
  AddedTokens symbols_;  // control symbols that texts may spell
  int64_t vocab_size_ = 0;
  int32_t end_of_document_ = -1;
  bool words_ = false;  // text is cut before blanks
  bool lines_ = false;  // and around line feeds
  bool dummy_prefix_ = false;
  bool lossless_ = false;
  uint32_t owner_ = WordCache::new_owner();
};

}  // namespace espalier
