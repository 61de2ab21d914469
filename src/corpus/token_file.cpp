// SPDX-License-Identifier: Apache-2.0
// Token files mapped into memory.
#include "corpus/token_file.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/stored_ids.hpp"

namespace espalier {

TokenFile::TokenFile(const std::string& path, VerifyData verify) : file_(path) {
  const auto bytes = static_cast<size_t>(file_.size());
  header_ =
      decode_token_header(file_.data(), std::min(bytes, kTokenHeaderBytes), file_.size(), path);
  if (verify == VerifyData::full) verify_payload();
}

void TokenFile::read(int64_t begin, int64_t count, int32_t* out) const {
  ESPALIER_REQUIRE(begin >= 0 && count >= 0 && begin <= tokens() - count,
                   "tokens [{}, {} + {}) of {}, which has {}", begin, begin, count, path(),
                   tokens());
  const IdType type = header_.token_bytes() == 2 ? IdType::uint16 : IdType::uint32;
  const unsigned char* from = file_.data() + kTokenHeaderBytes + begin * header_.token_bytes();
  const int64_t bad = copy_ids(type, from, count, header_.vocab_size, out);
  if (bad < 0) return;
  throw DataError(fmt::format(
      "{}: token {} has id {}, but ids are below {}: the file is damaged; rebuild it with "
      "espalier corpus build, or copy it again",
      path(), begin + bad, id_at(type, from, bad), header_.vocab_size));
}

int64_t TokenFile::document_begin(int64_t i) const {
  ESPALIER_REQUIRE(i == 0, "{} has no index of documents", path());
  return 0;
}

void TokenFile::verify_payload() const {
  const size_t payload = static_cast<size_t>(file_.size()) - kTokenHeaderBytes;
  const uint64_t found = hash_bytes(file_.data() + kTokenHeaderBytes, payload);
  if (found != header_.checksum) {
    throw DataError(fmt::format(
        "{}: its tokens are damaged (checksum {:016x}, but the bytes give {:016x}); copy the file "
        "again, or rebuild it with espalier corpus build",
        path(), header_.checksum, found));
  }
}

void require_same_tokenizer(const TokenArray& a, const TokenArray& b) {
  if (a.tokenizer() == b.tokenizer() && a.vocab_size() == b.vocab_size() &&
      a.end_of_document() == b.end_of_document()) {
    return;
  }
  throw DataError(fmt::format(
      "{}: made by tokenizer {} (vocab_size {}, end of document {}), but {} by {} ({}, {}); build "
      "both with the same tokenizer",
      b.path(), b.tokenizer(), b.vocab_size(), b.end_of_document(), a.path(), a.tokenizer(),
      a.vocab_size(), a.end_of_document()));
}

DocumentRange find_document(const TokenFile& file, int64_t index) {
  const auto end = static_cast<int32_t>(file.header().end_of_document);
  std::vector<int32_t> block(65536);
  DocumentRange range;
  int64_t document = 0;
  for (int64_t at = 0; at < file.tokens() && index >= 0;) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(block.size()), file.tokens() - at);
    file.read(at, count, block.data());
    for (int64_t i = 0; i < count; ++i) {
      if (block[static_cast<size_t>(i)] != end) continue;
      if (document == index) {
        range.end = at + i;
        return range;
      }
      ++document;
      range.begin = at + i + 1;
    }
    at += count;
  }
  throw DataError(
      fmt::format("{}: has no document {}; {}", file.path(), index,
                  file.header().documents == 0
                      ? std::string("it has none at all")
                      : fmt::format("its documents are 0 to {}", file.header().documents - 1)));
}

}  // namespace espalier
