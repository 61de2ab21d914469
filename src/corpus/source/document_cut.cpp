// SPDX-License-Identifier: Apache-2.0
// Cuts where a reader would cut.
#include "corpus/source/document_cut.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "corpus/source/text_reader.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

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

int64_t move_border(const std::string& path, int64_t file_bytes, int64_t at, int64_t window) {
  ESPALIER_REQUIRE(window >= 4, "a window of {} bytes, less than a character", window);
  if (at <= 0) return 0;
  if (at >= file_bytes) return file_bytes;
  // Three bytes before show whether a blank line or a character ends right there.
  const int64_t first = std::max<int64_t>(at - 3, 0);
  const int64_t last = std::min(at + window, file_bytes);
  std::string text(static_cast<size_t>(last - first), '\0');
  TextReader reader(path, first, last);
  size_t size = 0;
  while (const size_t got = reader.read(text.data() + size, text.size() - size)) size += got;
  text.resize(size);
  const auto border = static_cast<size_t>(at - first);
  size_t line_end = std::string::npos;
  for (size_t feed = text.find('\n', border - 1); feed != std::string::npos;
       feed = text.find('\n', feed + 1)) {
    if (ends_blank_line(text, feed)) return first + static_cast<int64_t>(feed) + 1;
    if (line_end == std::string::npos) line_end = feed + 1;
  }
  if (line_end == std::string::npos) line_end = utf8_boundary(text, border);
  return first + static_cast<int64_t>(line_end);
}

}  // namespace espalier
