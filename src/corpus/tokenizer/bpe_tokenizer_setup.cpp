// SPDX-License-Identifier: Apache-2.0
// From a description to a tokenizer: ids, added tokens, the end of a document, texts of tokens.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/error.hpp"
#include "corpus/tokenizer/bpe_tokenizer.hpp"
#include "corpus/tokenizer/byte_alphabet.hpp"

namespace espalier {
namespace {

// Those of common models, in the order in which they are looked for.
constexpr const char* kUsualEnds[] = {"<|endoftext|>", "<|end_of_text|>", "</s>",
                                      "<eos>",         "<|im_end|>",      "[EOS]"};
constexpr int64_t kMostHoles = 65536;  // ids without a token

using IdOf = std::unordered_map<std::string, int32_t>;

IdOf ids_of(const BpeDescription& description) {
  IdOf ids(description.table.vocab.begin(), description.table.vocab.end());
  for (const AddedToken& token : description.added) ids[token.content] = token.id;
  return ids;
}

const AddedToken* find_added(const BpeDescription& description, const std::string& content) {
  for (const AddedToken& token : description.added) {
    if (token.content == content) return &token;
  }
  return nullptr;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string text_of(const std::string& token, const DecodeRules& rules) {
  std::string text;
  if (rules.byte_alphabet) return from_byte_alphabet(token, text) ? text : token;
  text = token;
  for (const auto& [from, to] : rules.replace) replace_all(text, from, to);
  if (rules.byte_fallback && text.size() == 6 && text.compare(0, 3, "<0x") == 0 && text[5] == '>') {
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    if (high >= 0 && low >= 0) return std::string(1, static_cast<char>(high * 16 + low));
  }
  return text;
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeDescription description, TokenizerDefinition definition)
    : definition_(std::move(definition)),
      name_(definition_.name()),
      where_(description.where),
      normalizer_(std::move(description.normalizer)),
      pre_tokenizer_(std::move(description.pre_tokenizer)),
      decode_(description.decode) {
  int64_t count = 0, most = -1;
  const auto see = [&](const std::string& word, int64_t id) {
    if (id < 0 || id > std::numeric_limits<int32_t>::max() - 2) {
      throw DataError(
          fmt::format("{}: token {} has id {}, which is out of range", where_, word, id));
    }
    most = std::max(most, id);
    ++count;
  };
  for (const auto& [word, id] : description.table.vocab) see(word, id);
  for (const AddedToken& token : description.added) see(token.content, token.id);
  if (count == 0) throw DataError(where_ + ": has no tokens at all");
  if (most > count + kMostHoles) {
    throw DataError(fmt::format("{}: has {} tokens and ids up to {}; the file is damaged", where_,
                                count, most));
  }
  vocab_size_ = most + 1;
  find_end_of_document(description);
  model_ = std::make_unique<BpeModel>(description.table, where_);
  read_added(description);
  read_texts(description);
  lossless_ = find_lossless(description);
}

void BpeTokenizer::find_end_of_document(BpeDescription& description) {
  const IdOf ids = ids_of(description);
  std::string wanted = definition_.end_of_document;
  if (!wanted.empty() && ids.count(wanted) == 0) {
    throw DataError(
        fmt::format("{}: has no token {} (tokenizer.end_of_document); name one of its tokens, or "
                    "leave the key out",
                    where_, wanted));
  }
  for (const char* usual : kUsualEnds) {
    const auto found = ids.find(usual);
    const AddedToken* added = find_added(description, usual);
    if (wanted.empty() && found != ids.end() && (added == nullptr || added->special)) {
      wanted = usual;
    }
  }
  if (wanted.empty()) {
    end_of_document_ = static_cast<int32_t>(vocab_size_++);
    return;
  }
  end_of_document_ = ids.at(wanted);
  description.table.never = wanted;
}

void BpeTokenizer::read_added(const BpeDescription& description) {
  for (const AddedToken& token : description.added) {
    const bool taken = token.id != end_of_document_ &&
                       (!token.special || definition_.special_tokens == SpecialTokens::as_tokens);
    bool first = true;
    const std::string text =
        token.normalized ? normalizer_.normalise(token.content, first) : token.content;
    if (text.empty()) {
      throw DataError(fmt::format("{}: added token {} (id {}) is an empty text once normalised",
                                  where_, token.content, token.id));
    }
    (token.normalized ? normalised_ : as_written_).add(text, token, taken);
  }
}

void BpeTokenizer::read_texts(const BpeDescription& description) {
  texts_.resize(static_cast<size_t>(vocab_size_));
  known_.assign(texts_.size(), false);
  known_[static_cast<size_t>(end_of_document_)] = true;
  for (const auto& [word, id] : description.table.vocab) {
    texts_[static_cast<size_t>(id)] = text_of(word, decode_);
    known_[static_cast<size_t>(id)] = true;
  }
  for (const AddedToken& token : description.added) {
    std::string& text = texts_[static_cast<size_t>(token.id)];
    // One that is in vocab too may also come from other text, and stands for that.
    if (!decode_.byte_alphabet || !known_[static_cast<size_t>(token.id)]) text = token.content;
    known_[static_cast<size_t>(token.id)] = true;
  }
}

// Byte for byte, for any text. What is not provably so counts as not.
bool BpeTokenizer::find_lossless(const BpeDescription& description) const {
  if (!normalizer_.empty() || model_->symbols() != Symbols::bytes || !model_->is_complete()) {
    return false;
  }
  for (const PreTokenizerStep& step : pre_tokenizer_.steps()) {
    const bool keeps =
        step.kind == PreTokenizerStep::Kind::scan ||
        (step.kind == PreTokenizerStep::Kind::split && step.behaviour != SplitBehaviour::removed);
    if (!keeps) return false;
  }
  return std::none_of(description.added.begin(), description.added.end(), [&](const AddedToken& t) {
    return t.lstrip || t.rstrip || texts_[static_cast<size_t>(t.id)] != t.content;
  });
}

}  // namespace espalier
