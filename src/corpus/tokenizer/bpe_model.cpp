// SPDX-License-Identifier: Apache-2.0
// Merging: a table of pairs, a plain search for short words and a heap for long ones.
#include "corpus/tokenizer/bpe_model.hpp"

#include <algorithm>
#include <queue>

#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {
namespace {

constexpr uint32_t kNoRank = ~uint32_t{0};
constexpr size_t kShortWord = 48;  // symbols; below, searching beats a heap

size_t slot_of(uint64_t pair, size_t slots) {
  return static_cast<size_t>((pair * 0x9E3779B97F4A7C15ull) >> 20) & (slots - 1);
}

struct Neighbours {
  uint32_t before, behind;
};

}  // namespace

int32_t BpeModel::id_of(std::string_view key) const {
  const auto found = ids_.find(key);
  return found == ids_.end() ? -1 : found->second;
}

void BpeModel::insert(const Merge& merge) {
  size_t slot = slot_of(merge.pair, table_.size());
  while (table_[slot].pair != kNoPair && table_[slot].pair != merge.pair) {
    slot = (slot + 1) & (table_.size() - 1);
  }
  table_[slot] = merge;
}

const BpeModel::Merge* BpeModel::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_key(left, right);
  for (size_t slot = slot_of(pair, table_.size());; slot = (slot + 1) & (table_.size() - 1)) {
    if (table_[slot].pair == pair) return &table_[slot];
    if (table_[slot].pair == kNoPair) return nullptr;
  }
}

void BpeModel::append_word(std::string_view word, std::vector<int32_t>& tokens) const {
  if (word.empty()) return;
  if (ignore_merges_ && word.size() <= longest_) {
    const int32_t id = id_of(word);
    if (id >= 0 && id != never_) {
      tokens.push_back(id);
      return;
    }
  }
  if (!cuts_) return append_part(word, tokens);
  size_t begin = 0;
  for (size_t at = word.find(blank_, 1); at != std::string_view::npos;
       at = word.find(blank_, at + 1)) {
    if (at < blank_.size() || word.compare(at - blank_.size(), blank_.size(), blank_) != 0) {
      append_part(word.substr(begin, at - begin), tokens);
      begin = at;
    }
  }
  append_part(word.substr(begin), tokens);
}

void BpeModel::append_part(std::string_view word, std::vector<int32_t>& tokens) const {
  if (word.size() > WordCache::kMostBytes) return encode_part(word, tokens);
  WordCache::Slot& slot = WordCache::of_this_thread().slot(word);
  if (slot.holds(owner_, word)) {
    tokens.insert(tokens.end(), slot.tokens.begin(), slot.tokens.begin() + slot.count);
    return;
  }
  const size_t first = tokens.size();
  encode_part(word, tokens);
  slot.keep(owner_, word, tokens, first);
}

void BpeModel::encode_part(std::string_view word, std::vector<int32_t>& tokens) const {
  thread_local std::vector<int32_t> symbols;
  symbols.clear();
  append_symbols(word, symbols);
  if (symbols.size() <= kShortWord) {
    merge_short(symbols);
  } else {
    merge_long(symbols);
  }
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
  if (symbols.capacity() > (size_t{1} << 20)) std::vector<int32_t>().swap(symbols);
}

void BpeModel::append_symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  const bool plain = prefix_.empty() && suffix_.empty();
  bool in_unknown = false;
  std::string key;
  for (size_t at = 0; at < word.size();) {
    const size_t bytes = symbols_ == Symbols::bytes ? 1 : character_bytes(word[at]);
    const size_t end = std::min(at + bytes, word.size());
    std::string_view symbol = word.substr(at, end - at);
    if (!plain) {
      key = (at == 0 ? "" : prefix_) + std::string(symbol) + (end == word.size() ? suffix_ : "");
      symbol = key;
    }
    const int32_t id = symbols_ == Symbols::bytes && plain
                           ? byte_ids_[static_cast<unsigned char>(word[at])]
                           : id_of(symbol);
    if (id >= 0) {
      in_unknown = false;
      symbols.push_back(id);
    } else {
      append_unknown(symbol, in_unknown, symbols);
    }
    at = end;
  }
}

// The reference puts an unknown token behind the fallback bytes that come before the next known
// symbol; so do its users' ids. `in_unknown`: the token is already there, waiting.
void BpeModel::append_unknown(std::string_view key, bool& in_unknown,
                              std::vector<int32_t>& symbols) const {
  if (byte_fallback_ && symbols_ == Symbols::characters &&
      std::all_of(key.begin(), key.end(),
                  [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; })) {
    for (const char c : key) {
      // Bytes go before an unknown token that waits.
      const int32_t id = byte_ids_[static_cast<unsigned char>(c)];
      symbols.insert(in_unknown ? symbols.end() - 1 : symbols.end(), id);
    }
    return;
  }
  if (unknown_ < 0 || (in_unknown && fuse_unknown_)) return;
  symbols.push_back(unknown_);
  in_unknown = true;
}

void BpeModel::merge_short(std::vector<int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  const Merge* merges[kShortWord];
  size_t count = symbols.size();
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    uint32_t rank = kNoRank;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (merges[i] != nullptr && merges[i]->rank < rank) {
        rank = merges[i]->rank;
        best = i;
      }
    }
    if (rank == kNoRank) break;
    symbols[best] = merges[best]->result;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = i + 2 < count ? merges[i + 1] : nullptr;
    }
    --count;
    if (best > 0) merges[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = find(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

void BpeModel::merge_long(std::vector<int32_t>& symbols) const {
  const auto count = static_cast<uint32_t>(symbols.size());
  std::vector<Neighbours> links(count);
  std::vector<uint64_t> first;  // rank << 32 | place
  const auto entry = [&](uint32_t at, uint32_t next) {
    const Merge* merge = find(symbols[at], symbols[next]);
    return merge == nullptr ? kNoPair : static_cast<uint64_t>(merge->rank) << 32 | at;
  };
  for (uint32_t i = 0; i < count; ++i) {
    links[i] = {i - 1, i + 1};
    if (i + 1 < count && entry(i, i + 1) != kNoPair) first.push_back(entry(i, i + 1));
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                             std::move(first));
  while (!queue.empty()) {
    const auto at = static_cast<uint32_t>(queue.top());
    const auto rank = static_cast<uint32_t>(queue.top() >> 32);
    queue.pop();
    if (symbols[at] < 0) continue;  // merged into the one before it
    const uint32_t next = links[at].behind;
    if (next >= count) continue;
    const Merge* merge = find(symbols[at], symbols[next]);
    if (merge == nullptr || merge->rank != rank) continue;  // out of date
    symbols[at] = merge->result;
    symbols[next] = -1;
    const uint32_t behind = links[at].behind = links[next].behind;
    if (behind < count) {
      links[behind].before = at;
      if (entry(at, behind) != kNoPair) queue.push(entry(at, behind));
    }
    const uint32_t before = links[at].before;
    if (before < count && entry(before, at) != kNoPair) queue.push(entry(before, at));
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), -1), symbols.end());
}

}  // namespace espalier
