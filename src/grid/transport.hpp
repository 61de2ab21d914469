// SPDX-License-Identifier: Apache-2.0
// How messages leave device memory: handed to MPI as they are, or through pinned host memory.
#pragma once

#include <cstdint>
#include <string>

#include "deck/config.hpp"
#include "grid/comm.hpp"

namespace espalier {

enum class Transport {
  staged,    // MPI sees host memory alone
  gpu_aware  // MPI takes device pointers
};

/// Of the process; the same on all ranks, since both sides of a message cut it alike.
struct TransportSettings {
  Transport transport = Transport::staged;
  int64_t staging_bytes = int64_t{4} << 20;  // portion of a staged message
};
const TransportSettings& transport_settings();
/// While nothing is under way. Without effect in a build that computes on the host.
/// Errors  Internal if the portion is empty
void set_transport(const TransportSettings& settings);

/// What is known about the MPI library.
struct MpiSupport {
  bool reports_gpu = false;
  std::string library;  // "MPICH 4.0.2"
  std::string remark;   // what is in the way; may be empty
};
/// Asks the library by the extensions that Open MPI and MPICH (and those derived from it) offer,
/// looked up at run time, since another library may have none of them. What UCX or libfabric below
/// it can do is not visible. After MPI was started.
MpiSupport ask_mpi_for_gpu_support();

struct TransportChoice {
  Transport transport = Transport::staged;
  std::string words;  // for the run header
};
/// Errors  LaunchError if gpu_aware is demanded and not reported
TransportChoice choose_transport(DeviceTransport requested, const MpiSupport& support);
/// The same by what the libraries of all ranks report; makes it the transport of the process.
/// Collective
TransportChoice open_transport(const GridConfig& config, const Comm& world);

}  // namespace espalier
