// SPDX-License-Identifier: Apache-2.0
// A token file and its index, read together.
#include "corpus/store/shard.hpp"

#include "core/error.hpp"
#include "corpus/store/shard_index.hpp"

namespace espalier {

struct Shard::State {
  State(const std::string& path, VerifyData verify)
      : tokens(path, verify), index(index_path(path), verify) {}
  TokenFile tokens;
  ShardIndex index;
};

Shard::Shard(const std::string& path, VerifyData verify)
    : state_(std::make_unique<State>(path, verify)) {
  const TokenHeader& tokens = state_->tokens.header();
  const IndexHeader& index = state_->index.header();
  if (index.token_header != token_header_checksum(tokens) || index.tokens != tokens.tokens ||
      index.documents != tokens.documents) {
    throw DataError(fmt::format(
        "{}: is the index of another token file than {} ({} documents and {} tokens, not {} and "
        "{}, or unlike checksums); copy both files of the shard again, or rebuild the store",
        state_->index.path(), path, index.documents, index.tokens, tokens.documents,
        tokens.tokens));
  }
  if (verify == VerifyData::full) verify_ends();
}

Shard::~Shard() = default;

void Shard::verify_ends() const {
  for (int64_t i = 0; i < documents(); ++i) {
    const int64_t end = document_begin(i + 1);
    int32_t last = 0;
    read(end - 1, 1, &last);
    if (last != end_of_document()) {
      throw DataError(fmt::format(
          "{}: document {} ends at token {} with id {}, not with the end-of-document id {}; "
          "rebuild the store with espalier corpus build",
          path(), i, end - 1, last, end_of_document()));
    }
  }
}

const std::string& Shard::path() const {
  return state_->tokens.path();
}
const TokenHeader& Shard::header() const {
  return state_->tokens.header();
}
int64_t Shard::tokens() const {
  return state_->tokens.tokens();
}
int64_t Shard::vocab_size() const {
  return state_->tokens.vocab_size();
}
int32_t Shard::end_of_document() const {
  return state_->tokens.end_of_document();
}
const std::string& Shard::tokenizer() const {
  return state_->tokens.tokenizer();
}
void Shard::read(int64_t begin, int64_t count, int32_t* out) const {
  state_->tokens.read(begin, count, out);
}
int64_t Shard::documents() const {
  return state_->index.header().documents;
}
int64_t Shard::text_bytes() const {
  return state_->index.header().text_bytes;
}

int64_t Shard::document_begin(int64_t i) const {
  return i == 0 ? 0 : state_->index.record(i - 1).end;
}

uint64_t Shard::document_hash(int64_t i) const {
  return state_->index.record(i).hash;
}

int64_t Shard::document_text_bytes(int64_t i) const {
  return state_->index.record(i).text_bytes;
}

}  // namespace espalier
