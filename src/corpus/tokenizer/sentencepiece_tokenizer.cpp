// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding with sentencepiece.
#include "corpus/tokenizer/sentencepiece_tokenizer.hpp"

#include <sentencepiece_processor.h>
#include <simdjson.h>

#include <algorithm>

#include "core/error.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";
constexpr size_t kMostAtOnce = size_t{1}
                               << 20;          // bytes for the library, which takes 100 times that
constexpr size_t kLongWord = size_t{1} << 16;  // a stretch without a place to cut

bool ends_in_blank(std::string_view text) {
  return text.size() >= kBlank.size() && text.substr(text.size() - kBlank.size()) == kBlank;
}

// At most `most` bytes of a text: up to a line feed, else to a whole character.
size_t part_end(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  const size_t line = text.rfind('\n', most);
  if (line != std::string_view::npos && line > 0) return line;
  const size_t end = utf8_boundary(text, most);
  return end > 0 ? end : most;
}

}  // namespace

SentencePieceTokenizer::~SentencePieceTokenizer() = default;

void SentencePieceTokenizer::append_tokens(std::string_view text,
                                           std::vector<int32_t>& tokens) const {
  if (symbols_.empty()) return append_ordinary(text, true, tokens);
  std::vector<Section> sections;
  symbols_.find(text, sections);
  for (const Section& s : sections) {
    if (s.id >= 0) {
      tokens.push_back(s.id);
    } else {
      append_ordinary(text.substr(s.begin, s.end - s.begin), s.begin == 0, tokens);
    }
  }
}

void SentencePieceTokenizer::append_ordinary(std::string_view text, bool first,
                                             std::vector<int32_t>& tokens) const {
  if (text.empty()) return;
  if (lossless_) return append_lossless(text, tokens);
  std::string changed;
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    changed = printable_text(text);
    text = changed;
  }
  if (!words_) return append_by_library(text, tokens);
  if (!dummy_prefix_ || !first) return append_words(text, tokens);
  append_words(" " + std::string(text), tokens);
}

void SentencePieceTokenizer::append_lossless(std::string_view text,
                                             std::vector<int32_t>& tokens) const {
  const bool valid = simdjson::validate_utf8(text.data(), text.size());
  while (!text.empty()) {
    const Utf8Run run = valid ? Utf8Run{text.size(), true} : utf8_run(text);
    std::string_view part = text.substr(0, run.bytes);
    text.remove_prefix(run.bytes);
    if (!run.valid) append_bytes(part, tokens);
    while (run.valid && !part.empty()) {
      const size_t at = std::min(part.find(kBlank), part.size());
      append_words(part.substr(0, at), tokens);
      append_bytes(part.substr(at, kBlank.size()), tokens);
      part.remove_prefix(std::min(at + kBlank.size(), part.size()));
    }
  }
}

void SentencePieceTokenizer::append_bytes(std::string_view bytes,
                                          std::vector<int32_t>& tokens) const {
  for (const char c : bytes) tokens.push_back(byte_ids_[static_cast<unsigned char>(c)]);
}

// The first place behind `from` at which the text may be cut, or its end.
size_t SentencePieceTokenizer::next_cut(std::string_view text, size_t from) const {
  for (size_t at = from + 1; at < text.size(); ++at) {
    if (text[at] == ' ' && text[at - 1] != ' ' && !ends_in_blank(text.substr(0, at))) return at;
    if (lines_ && (text[at] == '\n' || text[at - 1] == '\n')) return at;
  }
  return text.size();
}

void SentencePieceTokenizer::append_words(std::string_view text,
                                          std::vector<int32_t>& tokens) const {
  for (size_t at = 0; at < text.size();) {
    const size_t end = next_cut(text, at);
    append_word(text.substr(at, end - at), tokens);
    at = end;
  }
}

void SentencePieceTokenizer::append_word(std::string_view word,
                                         std::vector<int32_t>& tokens) const {
  if (word.size() > WordCache::kMostBytes) {
    while (!word.empty()) {
      const size_t end = part_end(word, kLongWord);
      encode(word.substr(0, end), tokens);
      word.remove_prefix(end);
    }
    return;
  }
  WordCache::Slot& slot = WordCache::of_this_thread().slot(word);
  if (slot.holds(owner_, word)) {
    tokens.insert(tokens.end(), slot.tokens.begin(), slot.tokens.begin() + slot.count);
    return;
  }
  const size_t first = tokens.size();
  encode(word, tokens);
  slot.keep(owner_, word, tokens, first);
}

void SentencePieceTokenizer::append_by_library(std::string_view text,
                                               std::vector<int32_t>& tokens) const {
  while (!text.empty()) {
    const size_t end = part_end(text, kMostAtOnce);
    encode(text.substr(0, end), tokens);
    text.remove_prefix(end);
  }
}

void SentencePieceTokenizer::encode(std::string_view text, std::vector<int32_t>& tokens) const {
  std::vector<int> ids;
  const auto status = processor_->Encode({text.data(), text.size()}, &ids);
  if (!status.ok()) {
    throw DataError(fmt::format("tokenizer {} failed on a text of {} bytes: {}", name_, text.size(),
                                status.ToString()));
  }
  tokens.insert(tokens.end(), ids.begin(), ids.end());
}

size_t SentencePieceTokenizer::piece_end(std::string_view text, size_t most) const {
  if (text.size() <= most || most == 0) return text.size();
  // What stands in front, or spans a cut, would make the pieces' tokens others than the text's.
  if (!symbols_.empty() || (words_ && dummy_prefix_)) return text.size();
  if (!words_) return part_end(text, std::max(most, kMostAtOnce));
  const auto is_cut = [&](size_t at) { return next_cut(text.substr(0, at + 1), at - 1) == at; };
  for (size_t at = most; at > most / 2; --at) {
    if (is_cut(at)) return at;
  }
  return next_cut(text, most);
}

void SentencePieceTokenizer::append_text(const int32_t* tokens, int64_t count,
                                         std::string& text) const {
  bool at_begin = true;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens[i];
    if (id < 0 || id >= vocab_size_) {
      throw DataError(fmt::format(
          "token id {} at place {} is none of tokenizer {}, which has ids 0 to {}; leave ids from "
          "{} on out before decoding",
          id, i, name_, vocab_size_ - 1, vocab_size_));
    }
    if (id == end_of_document_) {
      at_begin = true;
      continue;
    }
    std::string_view part = texts_[static_cast<size_t>(id)];
    if (at_begin && dummy_prefix_ && part.substr(0, 1) == " ") part.remove_prefix(1);
    at_begin = false;
    text.append(part);
  }
}

}  // namespace espalier
