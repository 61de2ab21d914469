// SPDX-License-Identifier: Apache-2.0
// A tree of the tokens' bytes, walked from every byte that begins one.
#include "corpus/tokenizer/added_tokens.hpp"

#include <algorithm>

#include "corpus/tokenizer/character_classes.hpp"

namespace espalier {

int32_t AddedTokens::child(int32_t node, unsigned char byte) const {
  for (const auto& [key, next] : nodes_[static_cast<size_t>(node)].next) {
    if (key == byte) return next;
  }
  return -1;
}

void AddedTokens::add(const std::string& text, const AddedToken& token, bool taken) {
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_[static_cast<size_t>(node)].next.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].entry = static_cast<int32_t>(entries_.size());
  entries_.push_back({token, taken});
  begins_[static_cast<unsigned char>(text[0])] = true;
  longest_ = std::max(longest_, text.size());
  taken_ += taken ? 1 : 0;
  looks_around_ = looks_around_ || token.lstrip || token.rstrip || token.single_word;
}

size_t AddedTokens::longest_at(std::string_view text, size_t at, const Entry*& entry) const {
  size_t length = 0;
  int32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (node < 0) break;
    const int32_t found = nodes_[static_cast<size_t>(node)].entry;
    if (found >= 0) {
      length = i + 1 - at;
      entry = &entries_[static_cast<size_t>(found)];
    }
  }
  return length;
}

void AddedTokens::take(std::string_view text, size_t begin, size_t end, const Entry& entry,
                       size_t& done, std::vector<Section>& sections) const {
  const AddedToken& token = entry.token;
  if (token.single_word) {
    const bool touched_left =
        begin > 0 && is_word_character(last_character(text.substr(0, begin)).code);
    const bool touched_right =
        end < text.size() && is_word_character(read_character(text.data() + end).code);
    if (touched_left || touched_right) return;
  }
  if (token.lstrip) begin = std::max(trailing_space_begin(text.substr(0, begin)), done);
  if (token.rstrip) end += leading_space(text.substr(end));
  if (done < begin) sections.push_back({done, begin, -1});
  sections.push_back({begin, end, token.id});
  done = end;
}

// A token that stays text still hides what overlaps it, as in the reference.
void AddedTokens::find(std::string_view text, std::vector<Section>& sections) const {
  size_t done = 0;
  if (taken_ > 0) {
    for (size_t at = 0; at < text.size();) {
      const Entry* entry = nullptr;
      const size_t length =
          begins_[static_cast<unsigned char>(text[at])] ? longest_at(text, at, entry) : 0;
      if (length > 0 && entry->taken) take(text, at, at + length, *entry, done, sections);
      at += std::max<size_t>(length, 1);
    }
  }
  if (done < text.size()) sections.push_back({done, text.size(), -1});
}

bool AddedTokens::stands_across(std::string_view text, size_t place) const {
  if (taken_ == 0) return false;
  for (size_t at = place - std::min(place, longest_); at < place; ++at) {
    const Entry* entry = nullptr;
    if (at + longest_at(text, at, entry) > place) return true;
  }
  return false;
}

}  // namespace espalier
