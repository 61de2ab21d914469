// SPDX-License-Identifier: Apache-2.0
// A row of token ids on the disk, whatever program wrote it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

enum class Stream { train, validation };

/// Tokens of one file. Mapped: opening takes no time or memory that grows with the size, unless
/// all of it is verified. Thread-safe, all reads are const.
class TokenArray {
 public:
  virtual ~TokenArray() = default;
  virtual const std::string& path() const = 0;
  virtual int64_t tokens() const = 0;
  virtual int64_t vocab_size() const = 0;            ///< ids are below it; 0: the file does not say
  virtual int32_t end_of_document() const = 0;       ///< id; -1: none
  virtual const std::string& tokenizer() const = 0;  ///< its name; empty: the file does not say

  /// Copies tokens [begin, begin + count) to `out`.
  /// Errors    DataError with file and place for an id that is not below the vocabulary;
  ///           Internal if the range is outside
  virtual void read(int64_t begin, int64_t count, int32_t* out) const = 0;

  virtual bool has_index() const = 0;                   ///< are the documents' places known?
  virtual int64_t documents() const = 0;                ///< 0 without an index
  virtual int64_t document_begin(int64_t i) const = 0;  ///< i in [0, documents()]; constant time
};

/// Arrays that are mixed and counted together: the shards of one source of a store, or the files
/// that a deck names one by one (each store's source is one, all plain files together are "files").
struct TokenSource {
  std::string name, language;
  double weight = 0.0;  // of the store's manifest; 0: none given
  std::vector<std::unique_ptr<const TokenArray>> parts;
  int64_t tokens() const;
};

struct OpenTokens {
  std::vector<TokenSource> sources;  // in the order of the deck; never empty
  std::string tokenizer;             // name; empty if no file says
  std::string tokenizer_folder;      // of a store, with the files that define it; empty: none
  int64_t vocab_size = 0;            // 0 if no file says
  int32_t end_of_document = -1;
};

/// Opens what data.train or data.validation names: folders with a manifest.json (stores), token
/// files, nanoGPT and llm.c .bin, Megatron prefixes, .idx or .bin. What a file is, its first bytes
/// say; a .bin without any mark is nanoGPT's. A token file with an index beside it has_index().
/// A source whose name stands in several stores becomes STORE/NAME, STORE being the name of the
/// store's folder. Sources without a shard in this stream are left out. vocab_size is the model's;
/// 0: not known, and then ids of files that say nothing need only fit in int32.
/// Errors    DataError for missing, damaged, held-out (as training) or unlike files; DeckError for
///           no paths, an end of document that is needed and unknown, or sources of one name
OpenTokens open_tokens(const std::vector<std::string>& paths, Stream stream,
                       const DataConfig& config, int64_t vocab_size);

/// Errors    DataError if tokenizer, vocabulary or end of document differ, where both say them
void require_same_tokenizer(const OpenTokens& train, const OpenTokens& validation);

}  // namespace espalier
