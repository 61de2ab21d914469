// SPDX-License-Identifier: Apache-2.0
// Text through normalisation, words and merges; and cuts of long texts.
#include "corpus/tokenizer/bpe_tokenizer.hpp"

#include <simdjson.h>

#include <algorithm>

#include "core/error.hpp"
#include "corpus/tokenizer/character_classes.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

// The valid character that ends at `at`, or U+0000 with no bytes.
Character character_before(std::string_view text, size_t at) {
  for (size_t bytes = 1; bytes <= 4 && bytes <= at; ++bytes) {
    const std::string_view last = text.substr(at - bytes, bytes);
    if ((static_cast<unsigned char>(last[0]) & 0xC0) == 0x80) continue;
    return count_broken_utf8(last) == 0 && character_bytes(last[0]) == bytes
               ? read_character(last.data())
               : Character{0, 0};
  }
  return {0, 0};
}

}  // namespace

void BpeTokenizer::append_tokens(std::string_view text, std::vector<int32_t>& tokens) const {
  if (text.empty()) return;
  if (simdjson::validate_utf8(text.data(), text.size())) return append_valid(text, true, tokens);
  if (model_->symbols() == Symbols::characters || !normalizer_.empty()) {
    return append_valid(printable_text(text), true, tokens);
  }
  bool first = true;
  while (!text.empty()) {
    const Utf8Run run = utf8_run(text);
    const std::string_view part = text.substr(0, run.bytes);
    if (run.valid) {
      append_valid(part, first, tokens);
    } else {
      model_->append_word(part, tokens);
    }
    first = false;
    text.remove_prefix(run.bytes);
  }
}

void BpeTokenizer::append_valid(std::string_view text, bool first,
                                std::vector<int32_t>& tokens) const {
  if (as_written_.empty()) return append_ordinary(text, first, tokens);
  std::vector<Section> sections;
  as_written_.find(text, sections);
  for (const Section& s : sections) {
    if (s.id >= 0) {
      tokens.push_back(s.id);
    } else {
      append_ordinary(text.substr(s.begin, s.end - s.begin), first && s.begin == 0, tokens);
    }
  }
}

void BpeTokenizer::append_ordinary(std::string_view text, bool first,
                                   std::vector<int32_t>& tokens) const {
  std::string changed;
  if (!normalizer_.empty()) {
    changed = normalizer_.normalise(text, first);
    text = changed;
  }
  if (normalised_.empty()) return append_words(text, first, tokens);
  std::vector<Section> sections;
  normalised_.find(text, sections);
  for (const Section& s : sections) {
    if (s.id >= 0) {
      tokens.push_back(s.id);
    } else {
      append_words(text.substr(s.begin, s.end - s.begin), first && s.begin == 0, tokens);
    }
  }
}

void BpeTokenizer::append_words(std::string_view text, bool first,
                                std::vector<int32_t>& tokens) const {
  const Scanner scanner = pre_tokenizer_.only_scanner();
  if (scanner != Scanner::none) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = scan_piece(scanner, text, at);
      model_->append_word(text.substr(at, end - at), tokens);
      at = end;
    }
    return;
  }
  std::deque<std::string> owned;
  for (const PreTokenizer::Piece& piece : pre_tokenizer_.split(text, first, owned)) {
    model_->append_word(piece.text, tokens);
  }
}

// No piece of the three scanners goes on from a character that is no space to a blank, or from a
// letter to what is none, and none looks beyond such a place.
bool BpeTokenizer::is_cut(std::string_view text, size_t at) const {
  const Character before = character_before(text, at);
  if (before.bytes == 0) return false;
  const uint8_t* classes = character_classes();
  const size_t bytes = character_bytes(text[at]);
  if (at + bytes > text.size() || count_broken_utf8(text.substr(at, bytes)) != 0) return false;
  const uint8_t left = classes[before.code];
  const uint8_t right = classes[read_character(text.data() + at).code];
  const bool cut = (text[at] == ' ' && left != kSpace) || (left == kLetter && right != kLetter);
  return cut && !as_written_.stands_across(text, at) && !normalised_.stands_across(text, at);
}

size_t BpeTokenizer::piece_end(std::string_view text, size_t most) const {
  if (text.size() <= most || most == 0) return text.size();
  if (pre_tokenizer_.only_scanner() == Scanner::none || !normalizer_.empty() ||
      as_written_.looks_around() || normalised_.looks_around()) {
    return text.size();
  }
  for (size_t at = most; at > most / 2; --at) {
    if (is_cut(text, at)) return at;
  }
  for (size_t at = most + 1; at < text.size(); ++at) {
    if (is_cut(text, at)) return at;
  }
  return text.size();
}

void BpeTokenizer::append_text(const int32_t* tokens, int64_t count, std::string& text) const {
  bool at_begin = true;  // of a document: there a decoder may take blanks away
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens[i];
    if (id < 0 || id >= vocab_size_ || !known_[static_cast<size_t>(id)]) {
      throw DataError(fmt::format(
          "token id {} at place {} is none of tokenizer {}, which has {} ids{}; leave it out "
          "before decoding",
          id, i, name_, vocab_size_, id >= 0 && id < vocab_size_ ? " and none there" : ""));
    }
    if (id == end_of_document_) {
      at_begin = true;
      continue;
    }
    std::string_view part = texts_[static_cast<size_t>(id)];
    for (int64_t k = 0; at_begin && k < decode_.strip_most; ++k) {
      if (part.substr(0, decode_.strip.size()) != decode_.strip) break;
      part.remove_prefix(decode_.strip.size());
    }
    at_begin = false;
    text.append(part);
  }
}

}  // namespace espalier
