// SPDX-License-Identifier: Apache-2.0
// The two files of a shard, written side by side and published together.
#include "corpus/store/shard_writer.hpp"

#include <unistd.h>

#include <optional>

#include "core/error.hpp"
#include "corpus/hash.hpp"
#include "corpus/store/aside_file.hpp"
#include "corpus/store/shard_index.hpp"
#include "corpus/token_file_writer.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {
namespace {

constexpr size_t kBufferedRecords = 4096;

uint64_t checksum_of(const std::string& path) {
  const MappedFile file(path);
  return hash_bytes(file.data(), static_cast<size_t>(file.size()));
}

}  // namespace

struct ShardWriter::State {
  State(const std::string& path, const Tokenizer& tokenizer)
      : tokens(path, tokenizer), index(index_path(path)), end(tokenizer.end_of_document()) {}

  void flush() {
    const size_t bytes = records.size() * sizeof(IndexRecord);
    hash.update(records.data(), bytes);
    index.write(records.data(), bytes, written);
    written += static_cast<int64_t>(bytes);
    records.clear();
  }

  TokenFileWriter tokens;
  AsideFile index;
  int32_t end;
  IndexHeader header;
  RunningHash hash;
  std::vector<IndexRecord> records;
  int64_t written = static_cast<int64_t>(kIndexHeaderBytes);
  int64_t inside = 0;  // tokens of a document that has not ended
  bool finished = false;
};

ShardWriter::ShardWriter(const std::string& path, const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(path, tokenizer)) {}
ShardWriter::~ShardWriter() = default;

void ShardWriter::append(const int32_t* tokens, int64_t count) {
  state_->tokens.append(tokens, count);
  state_->inside += count;
}

void ShardWriter::end_document(uint64_t hash, int64_t text_bytes) {
  ESPALIER_REQUIRE(text_bytes >= 0, "{} bytes of text", text_bytes);
  State& s = *state_;
  s.tokens.append(&s.end, 1);
  s.inside = 0;
  ++s.header.documents;
  // An end inside of a document would be taken for the end of it by everything that reads tokens.
  ESPALIER_REQUIRE(s.tokens.header().documents == s.header.documents,
                   "document {} of {} holds the end-of-document token {}", s.header.documents - 1,
                   s.tokens.path(), s.end);
  s.header.text_bytes += text_bytes;
  s.header.tokens = s.tokens.header().tokens;
  s.records.push_back({s.header.tokens, hash, text_bytes});
  if (s.records.size() == kBufferedRecords) s.flush();
}

int64_t ShardWriter::documents() const {
  return state_->header.documents;
}

int64_t ShardWriter::tokens() const {
  return state_->tokens.header().tokens;
}

ShardRecord ShardWriter::finish() {
  State& s = *state_;
  ESPALIER_REQUIRE(!s.finished, "{} is finished already", s.tokens.path());
  ESPALIER_REQUIRE(s.inside == 0, "{}: a document of {} tokens has no end", s.tokens.path(),
                   s.inside);
  s.finished = true;
  ShardRecord record;
  record.file = s.tokens.path();
  if (s.header.documents == 0) return record;
  s.tokens.finish();
  s.flush();
  s.header.token_header = token_header_checksum(s.tokens.header());
  s.header.checksum = s.hash.value();
  const IndexHeaderBytes bytes = encode_index_header(s.header);
  s.index.write(bytes.data(), bytes.size(), 0);
  s.index.finish();
  record.documents = s.header.documents;
  record.tokens = s.header.tokens;
  record.text_bytes = s.header.text_bytes;
  record.checksum = checksum_of(s.tokens.aside());  // its header came last: read once more
  record.index_checksum = checksum_of(s.index.aside());
  return record;
}

void ShardWriter::publish() {
  State& s = *state_;
  ESPALIER_REQUIRE(s.finished, "{} is not finished", s.tokens.path());
  if (s.header.documents == 0) {  // nothing of an earlier build may stay under the name
    ::unlink(s.tokens.path().c_str());
    ::unlink(s.index.path().c_str());
    return;
  }
  s.index.publish();  // first: a token file under its name has its index
  s.tokens.publish();
}

}  // namespace espalier
