// SPDX-License-Identifier: Apache-2.0
// The lock of a folder: two jobs pointed at the same one would spoil each other's files.
#pragma once

#include <string>

namespace espalier {

/// Holds FOLDER/.lock while it lives. The lock belongs to the process, so that a process that is
/// killed leaves none behind; the file stays and says who held it (host, process, time, job).
///
/// Errors  LaunchError that names the holder and says what to do; DataError if the file cannot be
///         made. A file system without locks: a warning, and nothing is held
class FolderLock {
 public:
  /// `what` the folder is and `remedy` stand in the error: "the run folder", "choose another ...".
  FolderLock(const std::string& folder, const std::string& what, const std::string& remedy);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace espalier
