// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deck/corpus_config.hpp"

namespace espalier {

/// What a tokenizer is made of: enough to make it again, on any machine.
struct TokenizerDefinition {
  TokenizerKind kind = TokenizerKind::bytes;
  std::vector<std::pair<std::string, std::string>> files;  // fixed name, bytes
  std::string end_of_document;                             // as in TokenizerConfig
  SpecialTokens special_tokens = SpecialTokens::as_text;

  /// "bytes", or KIND:HASH: 16 hexadecimal digits of XXH3 of the files and of the settings that are
  /// not the default ones. A sentencepiece model without settings has the hash of its .model.
  std::string name() const;
};

/// Turns text into ids in [0, vocab_size) and back. Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string name() const = 0;  ///< as it stands in token files
  virtual int64_t vocab_size() const = 0;
  virtual int32_t end_of_document() const = 0;  ///< id that ends a document; encode never gives it

  /// Appends the tokens of `text`, which need not be valid UTF-8.
  virtual void append_tokens(std::string_view text, std::vector<int32_t>& tokens) const = 0;

  /// Where to end a piece of at most about `most` bytes, so that the tokens of the pieces, one
  /// after another, are the tokens of the text. Lets long texts be encoded in little memory.
  virtual size_t piece_end(std::string_view text, size_t most) const = 0;

  /// Appends the bytes that `count` tokens stand for, replacing nothing; end-of-document tokens
  /// stand for no bytes. The bytes need not be valid UTF-8: see printable_text in corpus/utf8.hpp.
  /// Errors    DataError if an id is outside [0, vocab_size)
  virtual void append_text(const int32_t* tokens, int64_t count, std::string& text) const = 0;

  /// Does decode(encode(x)) = x hold for every x, broken UTF-8 included? Foreign models may
  /// normalise, put a blank in front, or know no token for some bytes.
  virtual bool is_lossless() const { return true; }

  /// Errors    DataError by default: a tokenizer without files
  virtual TokenizerDefinition definition() const;

  std::vector<int32_t> encode(std::string_view text) const;
  std::string decode(const std::vector<int32_t>& tokens) const;
};

/// Ids 0 to 255 are the bytes; 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  TokenizerDefinition definition() const override { return {}; }
  int64_t vocab_size() const override { return 257; }
  int32_t end_of_document() const override { return 256; }
  void append_tokens(std::string_view text, std::vector<int32_t>& tokens) const override;
  size_t piece_end(std::string_view text, size_t most) const override;  // anywhere
  void append_text(const int32_t* tokens, int64_t count, std::string& text) const override;
};

/// The tokenizer that a token file names, where the name is all that it takes: bytes. Others are in
/// the folder beside the token files: see open_tokenizer in corpus/tokenizer/tokenizer_files.hpp.
/// Errors    DataError with the known names
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace espalier
