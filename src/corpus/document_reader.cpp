// SPDX-License-Identifier: Apache-2.0
// Cutting text into documents.
#include "corpus/document_reader.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

// Is the line that ends at this line feed empty (LF or CR LF)?
bool ends_blank_line(std::string_view text, size_t feed) {
  if (feed >= 1 && text[feed - 1] == '\n') return true;
  return feed >= 2 && text[feed - 1] == '\r' && text[feed - 2] == '\n';
}

}  // namespace

size_t find_document_cut(std::string_view text, size_t most) {
  ESPALIER_REQUIRE(most >= 8 && text.size() > most, "a text of {} bytes to be cut at {}",
                   text.size(), most);
  size_t line_end = 0;
  for (size_t end = most; end > most / 2;) {
    const void* found = ::memrchr(text.data() + most / 2, '\n', end - most / 2);
    if (found == nullptr) break;
    const auto feed = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    if (ends_blank_line(text, feed)) return feed + 1;
    if (line_end == 0) line_end = feed + 1;
    end = feed;
  }
  return line_end > 0 ? line_end : utf8_boundary(text, most);
}

DocumentReader::DocumentReader(const std::string& path, int64_t document_bytes)
    : reader_(path), document_bytes_(static_cast<size_t>(document_bytes)) {
  ESPALIER_REQUIRE(document_bytes == 0 || document_bytes >= kSmallestDocumentBytes,
                   "documents of {} bytes", document_bytes);
}

// Reads until `wanted` bytes are at hand or the file ends.
void DocumentReader::read_more(size_t wanted) {
  if (at_end_ || end_ - begin_ >= wanted) return;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  while (!at_end_ && end_ < wanted) {
    if (buffer_.size() - end_ < kReadBytes) {
      buffer_.resize(std::max(buffer_.size() + buffer_.size() / 2, end_ + 2 * kReadBytes));
    }
    const size_t got = reader_.read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += got;
    at_end_ = got == 0;
  }
}

bool DocumentReader::next(std::string_view& document) {
  const size_t most = document_bytes_ == 0 ? SIZE_MAX : document_bytes_;
  // Three bytes more, to see whether the character at the cut is whole.
  read_more(most > SIZE_MAX - 4 ? SIZE_MAX : most + 4);
  const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
  if (rest.empty()) return false;
  document = rest.substr(0, rest.size() <= most ? rest.size() : find_document_cut(rest, most));
  begin_ += document.size();
  return true;
}

}  // namespace espalier
