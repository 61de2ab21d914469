// SPDX-License-Identifier: Apache-2.0
#include "corpus/source/line_documents.hpp"

#include <algorithm>

namespace espalier {

namespace {

// One byte before the part shows whether a line begins right at its border.
int64_t first_byte(const PartRequest& request) {
  return std::max<int64_t>(request.part.begin - 1, 0);
}

}  // namespace

LineDocuments::LineDocuments(const PartRequest& request, int64_t longest_line)
    : request_(request),
      longest_line_(longest_line),
      end_(part_end(request)),
      input_(request.file, first_byte(request)),
      lines_(input_, first_byte(request), longest_line) {
  request_.faults.set_first_byte(first_byte(request));
  Line line;
  if (request.part.begin == 0) {
    lines_.skip_byte_order_mark();
  } else {
    lines_.next(line);  // of the part before, or its line feed alone
  }
}

bool LineDocuments::next(Document& out) {
  Line line;
  while (lines_.position() < end_) {
    if (!lines_.next(line)) {
      finish();
      return false;
    }
    if (line.too_long) {
      request_.faults.report_long(lines_.lines(), longest_line_);
      continue;
    }
    out.line = request_.faults.known_line(lines_.lines());
    if (read_line(line, lines_.lines(), out)) return true;
  }
  return false;
}

void LineDocuments::finish() {
  if (input_.is_damaged()) {
    request_.faults.report(FaultKind::damaged_file, lines_.lines() + 1,
                           input_.damage(lines_.unfinished_bytes(), "line"));
  } else if (request_.part.begin == 0 && lines_.lines() == 0) {
    request_.faults.report(FaultKind::empty_file, 0, "has no text");
  }
}

}  // namespace espalier
