// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding of words by a table of merges.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "corpus/tokenizer/word_cache.hpp"

namespace espalier {

/// What words are made of before they are merged.
enum class Symbols { bytes, characters };

/// A model as its file tells it. With Symbols::bytes the words of `vocab` and `merges` are written
/// in the byte alphabet.
struct BpeTable {
  Symbols symbols = Symbols::bytes;
  std::vector<std::pair<std::string, int32_t>> vocab;
  std::vector<std::pair<std::string, std::string>> merges;  // best first
  std::string unknown;                                      // empty: unknown symbols are left out
  bool fuse_unknown = false;
  bool byte_fallback = false;  // an unknown character becomes tokens <0x00> to <0xFF>
  bool ignore_merges = false;  // a word that is a token becomes it, whatever the merges
  std::string continuing_prefix, end_suffix;
  std::string never;  // this token is never made from text; empty: none
};

/// Merges the best pair of neighbours, the left one of equals, until none is in the table.
///
/// Cost      O(n log n) for a word of n symbols; words met before come from a cache
/// Source    Sennrich et al. 2016, arXiv:1508.07909; ids as by the tokenizers library 0.23
class BpeModel {
 public:
  /// Errors    DataError, begun with `where`, for merges of unknown tokens, ids used twice or out
  /// of
  ///           range, or a token `never` that is a symbol of its own
  BpeModel(const BpeTable& table, const std::string& where);

  /// Appends the tokens of a word: raw bytes with Symbols::bytes, else valid UTF-8. Thread-safe.
  void append_word(std::string_view word, std::vector<int32_t>& tokens) const;

  Symbols symbols() const { return symbols_; }
  bool is_byte_fallback() const { return byte_fallback_; }
  /// Every byte, or with byte fallback every character, becomes tokens that tell it.
  bool is_complete() const { return complete_; }

  /// A word may be cut before a blank that follows no blank (" " of bytes, U+2581 of characters):
  /// no merge goes across, so that the tokens of the parts are those of the word.
  bool is_cut_at_blanks() const { return cuts_; }

  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

 private:
  struct Merge {
    uint64_t pair;  // left id << 32 | right id
    uint32_t rank;
    int32_t result;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};
  static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  void read_vocab(const BpeTable& table, const std::string& where);
  void read_merges(const BpeTable& table, const std::string& where);
  void read_bytes();
  void read_special(const BpeTable& table, const std::string& where);
  int32_t id_of(std::string_view key) const;
  void insert(const Merge& merge);
  const Merge* find(int32_t left, int32_t right) const;
  void append_symbols(std::string_view word, std::vector<int32_t>& symbols) const;
  void append_unknown(std::string_view key, bool& in_unknown, std::vector<int32_t>& symbols) const;
  void append_part(std::string_view word, std::vector<int32_t>& tokens) const;
  void encode_part(std::string_view word, std::vector<int32_t>& tokens) const;
  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(std::vector<int32_t>& symbols) const;

  Symbols symbols_;
  bool fuse_unknown_, byte_fallback_, ignore_merges_, complete_ = false;
  std::string prefix_, suffix_, blank_;
  int32_t unknown_ = -1, never_ = -1;
  std::deque<std::string> keys_;  // raw bytes with Symbols::bytes
  std::unordered_map<std::string_view, int32_t> ids_;
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_ = 0;  // bytes of the longest key
  std::vector<Merge> table_;
  uint32_t owner_ = WordCache::new_owner();
  bool cuts_ = false;
};

}  // namespace espalier
