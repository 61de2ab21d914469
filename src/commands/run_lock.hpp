// SPDX-License-Identifier: Apache-2.0
// The lock of a run folder: two jobs pointed at the same folder would spoil each other's files.
#pragma once

#include <string>

namespace espalier {

/// Holds RUN/.lock while it lives. The lock belongs to the process, so that a process that is
/// killed leaves none behind; the file stays and says who held it (host, process, time, job).
///
/// Errors  LaunchError that names the holder and says what to do; DataError if the file cannot be
///         made. A file system without locks: a warning, and nothing is held
class RunLock {
 public:
  explicit RunLock(const std::string& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace espalier
