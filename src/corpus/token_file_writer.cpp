// SPDX-License-Identifier: Apache-2.0
// Token files written aside, flushed, then renamed.
#include "corpus/token_file_writer.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "corpus/tokenizer.hpp"

namespace espalier {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;  // stays in the second-level cache

struct Seen {
  uint32_t largest = 0;
  int64_t ends = 0;
};

// Narrows ids, and takes note of the largest and of the ends; one pass that can be vectorised.
template <class Stored>
Seen narrow(const int32_t* tokens, int64_t count, int32_t end, unsigned char* out) {
  Seen seen;
  int32_t ends = 0;  // a call handles at most kBufferBytes tokens
  for (int64_t i = 0; i < count; ++i) {
    const auto id = static_cast<Stored>(tokens[i]);
    seen.largest = std::max(seen.largest, static_cast<uint32_t>(tokens[i]));
    ends += tokens[i] == end ? 1 : 0;
    std::memcpy(out + i * static_cast<int64_t>(sizeof(Stored)), &id, sizeof(Stored));
  }
  seen.ends = ends;
  return seen;
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::string& path, const Tokenizer& tokenizer)
    : file_(path), buffer_(kBufferBytes) {
  header_.vocab_size = tokenizer.vocab_size();
  header_.end_of_document = tokenizer.end_of_document();
  header_.tokenizer = tokenizer.name();
}

void TokenFileWriter::flush() {
  hash_.update(buffer_.data(), buffered_);
  file_.write(buffer_.data(), buffered_, written_);
  written_ += static_cast<int64_t>(buffered_);
  buffered_ = 0;
}

void TokenFileWriter::append(const int32_t* tokens, int64_t count) {
  ESPALIER_REQUIRE(!finished_, "{} is finished", path());
  const int64_t width = header_.token_bytes();
  const auto end = static_cast<int32_t>(header_.end_of_document);
  while (count > 0) {
    const int64_t room = static_cast<int64_t>(kBufferBytes - buffered_) / width;
    const int64_t part = std::min(room, count);
    unsigned char* out = buffer_.data() + buffered_;
    const Seen seen = width == 2 ? narrow<uint16_t>(tokens, part, end, out)
                                 : narrow<uint32_t>(tokens, part, end, out);
    ESPALIER_REQUIRE(part == 0 || seen.largest < header_.vocab_size, "token id {} of {} in {}",
                     static_cast<int32_t>(seen.largest), header_.vocab_size, path());
    header_.documents += seen.ends;
    header_.tokens += part;
    buffered_ += static_cast<size_t>(part * width);
    tokens += part;
    count -= part;
    if (buffered_ == kBufferBytes) flush();
  }
}

void TokenFileWriter::finish() {
  ESPALIER_REQUIRE(!finished_, "{} is finished already", path());
  flush();
  header_.checksum = hash_.value();
  const TokenHeaderBytes bytes = encode_token_header(header_);
  file_.write(bytes.data(), bytes.size(), 0);
  file_.finish();
  finished_ = true;
}

}  // namespace espalier
