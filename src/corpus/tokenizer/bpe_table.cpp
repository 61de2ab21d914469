// SPDX-License-Identifier: Apache-2.0
// From the table that a file tells to the one that merging uses.
#include <algorithm>
#include <limits>

#include "core/error.hpp"
#include "corpus/tokenizer/bpe_model.hpp"
#include "corpus/tokenizer/byte_alphabet.hpp"
#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

bool is_one_character(std::string_view key) {
  return !key.empty() && character_bytes(key[0]) == key.size();
}

// Is the key a character, with or without what stands before and behind the symbols of a word?
bool is_symbol(std::string_view key, std::string_view prefix, std::string_view suffix) {
  for (const bool before : {false, true}) {
    for (const bool behind : {false, true}) {
      std::string_view rest = key;
      if (before && rest.substr(0, prefix.size()) == prefix) rest.remove_prefix(prefix.size());
      if (behind && rest.size() >= suffix.size() &&
          rest.substr(rest.size() - suffix.size()) == suffix) {
        rest.remove_suffix(suffix.size());
      }
      if (is_one_character(rest)) return true;
    }
  }
  return false;
}

}  // namespace

BpeModel::BpeModel(const BpeTable& table, const std::string& where)
    : symbols_(table.symbols),
      fuse_unknown_(table.fuse_unknown),
      byte_fallback_(table.byte_fallback),
      ignore_merges_(table.ignore_merges),
      prefix_(table.continuing_prefix),
      suffix_(table.end_suffix),
      blank_(table.symbols == Symbols::bytes ? " " : "\xE2\x96\x81") {
  read_vocab(table, where);
  read_bytes();
  read_special(table, where);
  read_merges(table, where);
}

void BpeModel::read_vocab(const BpeTable& table, const std::string& where) {
  std::vector<int32_t> ids;
  ids.reserve(table.vocab.size());
  std::string key;
  for (const auto& [word, id] : table.vocab) {
    // A word outside the byte alphabet is a token that no text becomes; it keeps its id.
    if (symbols_ == Symbols::characters || from_byte_alphabet(word, key)) {
      keys_.push_back(symbols_ == Symbols::characters ? word : key);
      if (!ids_.emplace(keys_.back(), id).second) {
        throw DataError(fmt::format("{}: vocab holds the token {} twice", where, word));
      }
      longest_ = std::max(longest_, keys_.back().size());
    }
    ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) {
    throw DataError(fmt::format("{}: vocab gives id {} to two tokens", where, *twice));
  }
}

void BpeModel::read_bytes() {
  bool all = true;
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = symbols_ == Symbols::bytes ? id_of(std::string_view(&c, 1))
                                                 : id_of(fmt::format("<0x{:02X}>", byte));
    all = all && byte_ids_[byte] >= 0;
  }
  complete_ =
      all && prefix_.empty() && suffix_.empty() && (symbols_ == Symbols::bytes || byte_fallback_);
}

void BpeModel::read_special(const BpeTable& table, const std::string& where) {
  const auto known = [&](const std::string& word) {
    std::string key = word;
    if (symbols_ == Symbols::bytes && !from_byte_alphabet(word, key)) return -1;
    return id_of(key);
  };
  if (!table.unknown.empty()) {
    unknown_ = known(table.unknown);
    if (unknown_ < 0) {
      throw DataError(fmt::format("{}: unk_token {} is not in vocab", where, table.unknown));
    }
  }
  if (table.never.empty()) return;
  never_ = known(table.never);
  if (never_ < 0) return;
  const bool single = symbols_ == Symbols::bytes
                          ? std::find(byte_ids_.begin(), byte_ids_.end(), never_) != byte_ids_.end()
                          : is_symbol(table.never, prefix_, suffix_);
  const bool fallback =
      byte_fallback_ && std::find(byte_ids_.begin(), byte_ids_.end(), never_) != byte_ids_.end();
  if (single || fallback || never_ == unknown_) {
    throw DataError(
        fmt::format("{}: the end-of-document token {} is one that text becomes; name another "
                    "in tokenizer.end_of_document",
                    where, table.never));
  }
}

void BpeModel::read_merges(const BpeTable& table, const std::string& where) {
  if (table.merges.size() >= std::numeric_limits<uint32_t>::max() / 4) {
    throw DataError(where + ": has too many merges");
  }
  size_t slots = 16;
  while (slots < table.merges.size() * 2) slots *= 2;
  table_.assign(slots, {kNoPair, 0, 0});
  cuts_ = prefix_.empty() && suffix_.empty() && id_of(blank_) >= 0;
  std::string left, right, raw;
  const auto key = [&](const std::string& word, std::string& out) {
    out = word;
    return symbols_ == Symbols::characters || from_byte_alphabet(word, out);
  };
  for (size_t rank = 0; rank < table.merges.size(); ++rank) {
    const auto& [a, b] = table.merges[rank];
    int32_t first = -1, second = -1, result = -1;
    if (key(a, left) && key(b, right) && b.size() >= prefix_.size()) {
      first = id_of(left);
      second = id_of(right);
      result = id_of(left + right.substr(std::min(right.size(), prefix_.size())));
    }
    if (first < 0 || second < 0 || result < 0) {
      throw DataError(fmt::format(
          "{}: merge {} ({} {}) names or makes a token that is not in vocab; the file is damaged",
          where, rank + 1, a, b));
    }
    const bool ends_in_blank =
        left.size() >= blank_.size() &&
        left.compare(left.size() - blank_.size(), blank_.size(), blank_) == 0;
    if (!ends_in_blank && right.compare(0, blank_.size(), blank_) == 0) cuts_ = false;
    if (result == never_) continue;
    insert({pair_key(first, second), static_cast<uint32_t>(rank), result});
  }
}

}  // namespace espalier
