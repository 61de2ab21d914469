// SPDX-License-Identifier: Apache-2.0
// Hints for MPI-IO, as text, made into what MPI takes.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace espalier {

/// An MPI_Info that frees itself.
///
/// Errors   Internal unless every hint is "key=value" with both parts as short as MPI wants them
class IoHints {
 public:
  explicit IoHints(const std::vector<std::string>& hints);
  ~IoHints();
  IoHints(const IoHints&) = delete;
  IoHints& operator=(const IoHints&) = delete;

  /// MPI_INFO_NULL without hints.
  MPI_Info handle() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

}  // namespace espalier
