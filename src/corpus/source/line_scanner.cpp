// SPDX-License-Identifier: Apache-2.0
// memchr(3) over a buffer that grows to the longest line.
#include "corpus/source/line_scanner.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "corpus/utf8.hpp"

namespace espalier {
namespace {

constexpr size_t kFirstCapacity = size_t{1} << 18;
constexpr size_t kLineEndBytes = 2;  // CR LF

}  // namespace

LineScanner::LineScanner(PartInput& input, int64_t first_byte, int64_t longest)
    : input_(input),
      longest_(static_cast<size_t>(longest)),
      position_(first_byte),
      buffer_(new char[kFirstCapacity + kPadding]),
      capacity_(kFirstCapacity) {
  ESPALIER_REQUIRE(longest >= 1, "lines of {} bytes", longest);
}

// Reads behind what is there; false at the end.
bool LineScanner::refill() {
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = looked_at_ = 0;
  }
  if (capacity_ - end_ < kFirstCapacity / 2) {
    const size_t capacity = 2 * capacity_;
    std::unique_ptr<char[]> larger(new char[capacity + kPadding]);
    std::memcpy(larger.get(), buffer_.get(), end_);
    buffer_ = std::move(larger);
    capacity_ = capacity;
  }
  const size_t got = input_.read(buffer_.get() + end_, capacity_ - end_);
  end_ += got;
  return got > 0;
}

void LineScanner::skip_byte_order_mark() {
  while (end_ - begin_ < kByteOrderMark.size() && refill()) {
  }
  const std::string_view start(buffer_.get() + begin_, end_ - begin_);
  if (start.substr(0, kByteOrderMark.size()) != kByteOrderMark) return;
  begin_ += kByteOrderMark.size();
  skipped_ = static_cast<int64_t>(kByteOrderMark.size());
}

// Is the line that is the first `size` bytes valid UTF-8? All whole lines in the buffer are looked
// at together, which for short ones is much faster.
bool LineScanner::look_at_lines(size_t size) {
  if (begin_ + size > looked_at_) {
    const char* start = buffer_.get() + begin_;
    const void* feed = ::memrchr(start, '\n', end_ - begin_);
    const size_t whole =
        feed == nullptr ? size : static_cast<size_t>(static_cast<const char*>(feed) - start) + 1;
    looked_at_ = begin_ + std::max(whole, size);
    are_valid_ = find_broken_utf8({start, looked_at_ - begin_}) == std::string_view::npos;
  }
  return are_valid_;
}

// Hands out the first `size` bytes of the buffer, which end the line.
void LineScanner::take(Line& line, size_t size, int64_t dropped) {
  line.raw = {buffer_.get() + begin_, size};
  line.text = line.raw;
  if (!line.text.empty() && line.text.back() == '\n') {
    line.text.remove_suffix(1);
    if (!line.text.empty() && line.text.back() == '\r') line.text.remove_suffix(1);
  }
  line.begin = position_;
  line.is_valid = look_at_lines(size);
  line.too_long = dropped > 0 || line.text.size() > longest_;
  if (line.too_long) line.text = line.raw = {};
  position_ += static_cast<int64_t>(size) + dropped + skipped_;
  skipped_ = 0;
  begin_ += size;
  ++lines_;
}

bool LineScanner::next(Line& line) {
  int64_t dropped = 0;
  size_t searched = 0;  // bytes after begin_ without a line feed
  for (;;) {
    const char* start = buffer_.get() + begin_;
    const void* feed = std::memchr(start + searched, '\n', end_ - begin_ - searched);
    if (feed != nullptr) {
      take(line, static_cast<size_t>(static_cast<const char*>(feed) - start) + 1, dropped);
      return true;
    }
    searched = end_ - begin_;
    if (searched > longest_ + kLineEndBytes) {
      dropped += static_cast<int64_t>(searched);
      begin_ = end_ = searched = looked_at_ = 0;
    }
    if (refill()) continue;
    if (searched == 0 && dropped == 0) return false;
    if (input_.is_damaged()) {
      unfinished_ = static_cast<int64_t>(searched) + dropped;
      return false;
    }
    take(line, searched, dropped);
    return true;
  }
}

}  // namespace espalier
