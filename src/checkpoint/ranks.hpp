// SPDX-License-Identifier: Apache-2.0
// Private to this room: the ranks that write or read a file together. The one place where the
// communicator is handed to HDF5; this room calls no MPI itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "checkpoint/hdf5_handle.hpp"

namespace espalier {

class Comm;

/// Whether all ranks make a call together, or each for itself.
enum class Transfer { independent, collective };

class Ranks {
 public:
  explicit Ranks(const Comm* comm) : comm_(comm) {}
  int rank() const;
  int size() const;
  /// Runs `action` on every rank. If it threw a DataError on any, all ranks throw that of the
  /// first. An action that communicates does so on every rank, failed or not.
  void run_agreed(const std::function<void()>& action) const;
  /// `bytes` of host memory from rank 0 to all.
  void broadcast(void* data, int64_t bytes) const;
  /// Access properties: the MPI-IO driver over these ranks, or plain files for one rank.
  H5Properties file_access(const std::string& file) const;
  H5Properties transfer(Transfer kind, const std::string& file) const;

 private:
  const Comm* comm_;
};

}  // namespace espalier
