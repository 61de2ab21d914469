// SPDX-License-Identifier: Apache-2.0
// Plain text as documents: the file, its lines, what stands between separators, pieces of a size.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.hpp"
#include "corpus/source/document_cut.hpp"
#include "corpus/source/line_documents.hpp"

namespace espalier {
namespace {

class FileDocument : public PartReader {
 public:
  explicit FileDocument(const PartRequest& request) : request_(request), input_(request.file, 0) {}

  bool next(Document& out) override {
    if (done_) return false;
    done_ = true;
    out.line = 1;
    if (!read_whole_file(request_, input_, out.text)) return false;
    if (out.text.compare(0, kByteOrderMark.size(), kByteOrderMark) == 0) {
      out.text.erase(0, kByteOrderMark.size());
    }
    return request_.faults.settle(out.text, 1);
  }
  int64_t disk_position() const override { return input_.disk_position(); }

 private:
  PartRequest request_;
  PartInput input_;
  bool done_ = false;
};

class PlainLines : public LineDocuments {
 public:
  explicit PlainLines(const PartRequest& request)
      : LineDocuments(request, request.longest_document_bytes) {}

 private:
  bool read_line(const Line& line, int64_t number, Document& out) override {
    out.text.assign(line.text);
    return request().faults.settle(out.text, number, line.is_valid ? Utf8::valid : Utf8::unknown);
  }
};

// A document begins with the file and behind each separator line.
class SeparatedDocuments : public PartReader {
 public:
  explicit SeparatedDocuments(const PartRequest& request)
      : request_(request),
        end_(part_end(request)),
        input_(request.file, first_byte(request)),
        lines_(input_, first_byte(request), request.longest_document_bytes) {
    request_.faults.set_first_byte(first_byte(request));
    if (first_byte(request) == 0) lines_.skip_byte_order_mark();
    if (request.part.begin > 0) find_first();
  }

  bool next(Document& out) override {
    while (!ended_ && lines_.position() < end_) {
      const int64_t first_line = lines_.lines() + 1;
      const Found found = read_document(out.text);
      if (found == Found::none) {
        finish();
        return false;
      }
      if (found == Found::too_long) {
        request_.faults.report_long(first_line, request_.longest_document_bytes);
        continue;
      }
      out.line = request_.faults.known_line(first_line);
      if (request_.faults.settle(out.text, first_line)) return true;
    }
    return false;
  }
  int64_t disk_position() const override { return input_.disk_position(); }

 private:
  enum class Found { none, document, too_long };

  // Far enough before the part to see a separator line that ends right at its border (CR LF), with
  // the line feed or the byte order mark before it.
  static int64_t first_byte(const PartRequest& request) {
    const auto separator = static_cast<int64_t>(request.source.separator.size());
    return std::max<int64_t>(request.part.begin - separator - 6, 0);
  }

  bool is_separator(const Line& line) const {
    return !line.too_long && line.text == request_.source.separator;
  }

  void find_first() {
    Line line;
    // What follows the first byte is no whole line, unless it is the file's first.
    if (first_byte(request_) > 0) ended_ = !lines_.next(line);
    while (!ended_ && lines_.position() < end_) {
      ended_ = !lines_.next(line);
      if (!ended_ && lines_.position() >= request_.part.begin && is_separator(line)) return;
    }
  }

  Found read_document(std::string& text) {
    text.clear();
    const auto most = static_cast<size_t>(request_.longest_document_bytes);
    bool too_long = false, is_begun = false;
    Line line;
    while (lines_.next(line)) {
      if (is_separator(line)) return too_long ? Found::too_long : Found::document;
      is_begun = true;
      too_long = too_long || line.too_long || text.size() + line.raw.size() > most;
      if (!too_long) text.append(line.raw);
    }
    ended_ = true;
    unfinished_ = lines_.unfinished_bytes() + static_cast<int64_t>(text.size());
    if (!is_begun || input_.is_damaged()) return Found::none;
    return too_long ? Found::too_long : Found::document;
  }

  void finish() {
    if (input_.is_damaged()) {
      request_.faults.report(FaultKind::damaged_file, lines_.lines() + 1,
                             input_.damage(unfinished_, "document"));
    } else if (request_.part.begin == 0 && lines_.lines() == 0) {
      request_.faults.report(FaultKind::empty_file, 0, "has no text");
    }
  }

  PartRequest request_;
  int64_t end_;
  PartInput input_;
  LineScanner lines_;
  bool ended_ = false;
  int64_t unfinished_ = 0;
};

// Together the documents are the text, byte for byte, but for those of blanks alone.
class SizedDocuments : public PartReader {
 public:
  explicit SizedDocuments(const PartRequest& request)
      : request_(request),
        most_(static_cast<size_t>(request.source.document_bytes)),
        first_(moved(request, request.part.begin)),
        input_(request.file, first_,
               part_end(request) == INT64_MAX ? INT64_MAX : moved(request, request.part.end)) {
    request_.faults.set_first_byte(first_);
  }

  bool next(Document& out) override {
    for (;;) {
      read_more(most_ + 4);  // three bytes more show whether the character at the cut is whole
      const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
      if (rest.empty()) {
        finish();
        return false;
      }
      const size_t size = rest.size() <= most_ ? rest.size() : find_document_cut(rest, most_);
      out.text.assign(rest.substr(0, size));
      begin_ += size;
      has_text_ = true;
      const int64_t line = line_;
      line_ += std::count(out.text.begin(), out.text.end(), '\n');
      out.line = request_.faults.known_line(line);
      if (request_.faults.settle(out.text, line)) return true;
    }
  }
  int64_t disk_position() const override { return input_.disk_position(); }

 private:
  static constexpr size_t kReadBytes = size_t{1} << 18;
  static constexpr int64_t kWidestWindow = int64_t{1} << 20;

  static int64_t moved(const PartRequest& request, int64_t border) {
    const bool whole = request.file.compression != Compression::none;
    const int64_t window = std::min(request.source.document_bytes, kWidestWindow);
    return whole || border == 0
               ? 0
               : move_border(request.file.path, request.file.bytes, border, window);
  }

  void read_more(size_t wanted) {
    if (at_end_ || end_ - begin_ >= wanted) return;
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    while (!at_end_ && end_ < wanted) {
      if (buffer_.size() - end_ < kReadBytes) {
        buffer_.resize(std::max(buffer_.size() + buffer_.size() / 2, end_ + 2 * kReadBytes));
      }
      const size_t got = input_.read(buffer_.data() + end_, buffer_.size() - end_);
      end_ += got;
      at_end_ = got == 0;
      if (first_ == 0 && !is_begun_ && (at_end_ || end_ >= kByteOrderMark.size())) begin_text();
    }
    if (at_end_ && input_.is_damaged() && damage_.empty()) drop_unfinished_line();
  }

  void begin_text() {
    is_begun_ = true;
    if (std::string_view(buffer_.data(), end_).substr(0, kByteOrderMark.size()) == kByteOrderMark) {
      begin_ = kByteOrderMark.size();
    }
  }

  void drop_unfinished_line() {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const size_t feed = rest.rfind('\n');
    const size_t kept = feed == std::string_view::npos ? 0 : feed + 1;
    damage_ = input_.damage(static_cast<int64_t>(rest.size() - kept), "line");
    end_ = begin_ + kept;
  }

  void finish() {
    if (!damage_.empty()) {
      request_.faults.report(FaultKind::damaged_file, line_, damage_);
    } else if (!has_text_ && request_.part.begin == 0 && part_end(request_) == INT64_MAX) {
      request_.faults.report(FaultKind::empty_file, 0, "has no text");
    }
  }

  PartRequest request_;
  size_t most_;
  int64_t first_;
  PartInput input_;
  std::string buffer_;
  size_t begin_ = 0, end_ = 0;  // of the buffer, not handed out yet
  int64_t line_ = 1;            // of what comes next
  bool is_begun_ = false, at_end_ = false, has_text_ = false;
  std::string damage_;
};

}  // namespace

std::unique_ptr<PartReader> read_text_part(const PartRequest& request) {
  switch (request.source.documents) {
    case DocumentCut::file: return std::make_unique<FileDocument>(request);
    case DocumentCut::line: return std::make_unique<PlainLines>(request);
    case DocumentCut::separator: return std::make_unique<SeparatedDocuments>(request);
    default: return std::make_unique<SizedDocuments>(request);
  }
}

}  // namespace espalier
