// SPDX-License-Identifier: Apache-2.0
// The life of MPI in this process: started and ended by main, which is the only owner.
#pragma once

#include <string>

#include "grid/comm.hpp"

namespace espalier {

/// Starts MPI, and ends it when it goes out of scope.
///
/// Main catches every error while the session still lives: an error that is the same on all ranks
/// lets the session end in the usual way, any other calls abort(). A session that an exception
/// unwinds past aborts the job, since MPI_Finalize would wait for ranks that never come.
///
/// Collective  over all ranks, at start and at end
/// Errors      LaunchError if MPI does not let the main thread communicate beside other threads
class MpiSession {
 public:
  /// Removes what belongs to the launcher from argc and argv.
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }
  const std::string& host() const { return host_; }

  /// Whether several threads may call MPI at once (one that writes beside the main thread).
  bool allows_threads() const { return allows_threads_; }

  /// All ranks of the job.
  const Comm& world() const { return world_; }

  /// Ends every rank of the job with this exit code; for an error that other ranks do not share.
  [[noreturn]] static void abort(int code);

 private:
  bool allows_threads_ = false;
  int exceptions_at_start_ = 0;
  std::string host_;
  Comm world_;
};

}  // namespace espalier
