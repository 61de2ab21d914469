// SPDX-License-Identifier: Apache-2.0
// How far each member of a team is, told through a file that all share: no message disturbs the
// work, and a member that fails stops the others soon.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace espalier {

/// What one member has done, or all together.
struct WorkDone {
  int64_t input_bytes = 0;  // as on the disk
  int64_t text_bytes = 0;   // of documents that were read
};

/// One line of the board a member. A board that cannot be read or written only loses the display.
class ProgressBoard {
 public:
  /// Member 0 makes an empty board for `members` (make), before the others open it.
  static void make(const std::string& path, int members);
  ProgressBoard(const std::string& path, int rank, int members);
  ~ProgressBoard();
  ProgressBoard(const ProgressBoard&) = delete;
  ProgressBoard& operator=(const ProgressBoard&) = delete;

  void tell(const WorkDone& done);
  void tell_finished();  ///< this member has nothing left to do
  void tell_failed();

  struct View {
    WorkDone sum;
    int finished = 0;
    bool has_failed = false;
  };
  View look() const;

 private:
  struct Line {
    int64_t state = 0;  // 0 works, 1 finished, 2 failed
    WorkDone done;
  };
  void write();
  int descriptor_ = -1;
  int rank_, members_;
  Line own_;
};

}  // namespace espalier
