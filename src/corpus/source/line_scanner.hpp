// SPDX-License-Identifier: Apache-2.0
// The lines of a part, without copying them and without holding those that are too long.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "corpus/source/part_input.hpp"

namespace espalier {

struct Line {
  std::string_view text;  // without LF or CR LF; empty if too long
  std::string_view raw;   // with its end
  int64_t begin = 0;      // bytes of text before it
  bool too_long = false;
  bool is_valid = false;  // known to be valid UTF-8; else it must be looked at
};

/// Memory is twice the longest line and a block, whatever the file.
class LineScanner {
 public:
  /// Readable bytes behind each line, as simdjson wants them.
  static constexpr size_t kPadding = 64;

  /// `first_byte`: where `input` stands in its file. Lines above `longest` bytes are too long.
  LineScanner(PartInput& input, int64_t first_byte, int64_t longest);

  /// The next line; false at the end. It is valid until the next call. A last line without line
  /// feed counts, but not one that damage cut off.
  bool next(Line& line);
  /// At the beginning of a file: skips a byte order mark. The first line begins with it all the
  /// same, so that the part which holds byte 0 has that line.
  void skip_byte_order_mark();

  int64_t position() const { return position_; }            ///< bytes of text before the next line
  int64_t lines() const { return lines_; }                  ///< handed out so far
  int64_t unfinished_bytes() const { return unfinished_; }  ///< of the line that damage cut off

 private:
  bool refill();
  bool look_at_lines(size_t size);
  void take(Line& line, size_t size, int64_t dropped);

  PartInput& input_;
  size_t longest_;
  int64_t position_;
  int64_t lines_ = 0;
  int64_t unfinished_ = 0;
  int64_t skipped_ = 0;  // bytes before the next line that are part of it
  std::unique_ptr<char[]> buffer_;
  size_t capacity_;
  size_t begin_ = 0, end_ = 0;  // of the buffer, not handed out yet
  size_t looked_at_ = 0;        // lines before this place of the buffer were looked at together
  bool are_valid_ = false;      // and are valid UTF-8
};

}  // namespace espalier
