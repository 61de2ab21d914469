// SPDX-License-Identifier: Apache-2.0
// Private to this room: the ranks that write or read a file together. The one place where the
// communicator is handed to HDF5; this room calls no MPI itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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
  /// Null for one process alone.
  const Comm* comm() const { return comm_; }
  /// Runs `action` on every rank. If it threw an Error on any, all ranks throw that of the
  /// first. An action that communicates does so on every rank, failed or not.
  void run_agreed(const std::function<void()>& action) const;
  /// `bytes` of host memory from rank 0 to all.
  void broadcast(void* data, int64_t bytes) const;
  /// Each number added up (modulo 2^64) or their largest, on all ranks.
  void add_up(std::vector<uint64_t>& numbers) const;
  void keep_largest(std::vector<int64_t>& numbers) const;
  /// To write: the MPI-IO driver over these ranks with "key=value" hints, or plain files for one.
  H5Properties shared_access(const std::string& file, const std::vector<std::string>& hints) const;
  H5Properties transfer(Transfer kind, const std::string& file) const;

 private:
  const Comm* comm_;
};

/// To read: this process by itself, by plain system calls.
H5Properties own_access(const std::string& file);

}  // namespace espalier
