// SPDX-License-Identifier: Apache-2.0
// What this process computes on: Kokkos, and in a build for a device the device of this rank.
#pragma once

#include <memory>
#include <string>

#include "deck/config.hpp"
#include "device/device.hpp"
#include "grid/mpi_session.hpp"

namespace espalier {

/// The device of this rank, for the header of a run and for health. Empty in a host build.
struct ComputeDevice {
  device::Description description;
  int sharers = 1;        ///< ranks that compute on it
  std::string transport;  ///< how messages leave its memory, in words
};

/// Made once by main, between the start and the end of MPI.
///
/// A host build starts Kokkos at once. A device is opened, and Kokkos started on it, by the first
/// verb that computes: others run where there is none.
class ComputeSession {
 public:
  /// Removes Kokkos' options from the arguments.
  ComputeSession(const MpiSession& mpi, int& argc, char** argv);
  /// Ends Kokkos, then closes the device.
  ~ComputeSession();
  ComputeSession(const ComputeSession&) = delete;
  ComputeSession& operator=(const ComputeSession&) = delete;

  /// Opens the device of this rank, and sets the kernels and the transport of this deck; again for
  /// each further deck of one verb, which computes on the same device.
  /// Collective  over all ranks. Errors  LaunchError, the same on every rank
  void start(const Config& config);
  const ComputeDevice& device() const { return device_; }

 private:
  const MpiSession& mpi_;
  bool is_started_ = false;
  ComputeDevice device_;
};

}  // namespace espalier
