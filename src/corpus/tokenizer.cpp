// SPDX-License-Identifier: Apache-2.0
// The byte tokenizer, and tokenizers by name.
#include "corpus/tokenizer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "corpus/hash.hpp"

namespace espalier {

std::string TokenizerDefinition::name() const {
  const char* word = kind == TokenizerKind::sentencepiece ? "sentencepiece"
                     : kind == TokenizerKind::gpt2        ? "gpt2"
                                                          : "huggingface";
  if (kind == TokenizerKind::bytes) return "bytes";
  std::string settings;
  if (!end_of_document.empty() || special_tokens != SpecialTokens::as_text) {
    settings =
        fmt::format("{}:{}", special_tokens == SpecialTokens::as_text ? 0 : 1, end_of_document);
  }
  uint64_t hash = settings.empty() ? 0 : hash_bytes(settings.data(), settings.size());
  for (const auto& file : files) hash = hash_bytes(file.second.data(), file.second.size(), hash);
  return fmt::format("{}:{:016x}", word, hash);
}

TokenizerDefinition Tokenizer::definition() const {
  throw DataError(fmt::format("tokenizer {} has no files to keep; use another", name()));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  append_tokens(text, tokens);
  return tokens;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  append_text(tokens.data(), static_cast<int64_t>(tokens.size()), text);
  return text;
}

void ByteTokenizer::append_tokens(std::string_view text, std::vector<int32_t>& tokens) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  tokens.insert(tokens.end(), bytes, bytes + text.size());
}

size_t ByteTokenizer::piece_end(std::string_view text, size_t most) const {
  return std::min(text.size(), most);
}

void ByteTokenizer::append_text(const int32_t* tokens, int64_t count, std::string& text) const {
  text.reserve(text.size() + static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t id = tokens[i];
    if (id < 0 || id >= vocab_size()) {
      throw DataError(
          fmt::format("token id {} at place {} is none of tokenizer bytes, which has ids 0 to {}; "
                      "leave ids from "
                      "{} on out before decoding",
                      id, i, vocab_size() - 1, vocab_size()));
    }
    if (id != end_of_document()) text.push_back(static_cast<char>(id));
  }
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  throw DataError(fmt::format("tokenizer {} is not known; this program has: bytes", name));
}

}  // namespace espalier
