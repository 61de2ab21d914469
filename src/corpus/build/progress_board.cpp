// SPDX-License-Identifier: Apache-2.0
#include "corpus/build/progress_board.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "core/durable_file.hpp"

namespace espalier {

namespace {

constexpr int64_t kFinished = 1, kFailed = 2;

}  // namespace

void ProgressBoard::make(const std::string& path, int members) {
  write_text_file(path, std::string(sizeof(Line) * static_cast<size_t>(members), '\0'));
}

ProgressBoard::ProgressBoard(const std::string& path, int rank, int members)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CLOEXEC)), rank_(rank), members_(members) {}

ProgressBoard::~ProgressBoard() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ProgressBoard::write() {
  const auto offset = static_cast<off_t>(sizeof(Line)) * rank_;
  const ssize_t written = ::pwrite(descriptor_, &own_, sizeof own_, offset);
  static_cast<void>(written);  // a line less on the display
}

void ProgressBoard::tell(const WorkDone& done) {
  own_.done = done;
  write();
}

void ProgressBoard::tell_finished() {
  own_.state = kFinished;
  write();
}

void ProgressBoard::tell_failed() {
  own_.state = kFailed;
  write();
}

ProgressBoard::View ProgressBoard::look() const {
  std::vector<Line> lines(static_cast<size_t>(members_));
  const size_t bytes = lines.size() * sizeof(Line);
  View view;
  if (::pread(descriptor_, lines.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    view.finished = members_;  // nobody waits for a board that is gone
    return view;
  }
  for (const Line& line : lines) {
    view.sum.input_bytes += line.done.input_bytes;
    view.sum.text_bytes += line.done.text_bytes;
    view.finished += line.state == kFinished ? 1 : 0;
    view.has_failed = view.has_failed || line.state == kFailed;
  }
  return view;
}

}  // namespace espalier
