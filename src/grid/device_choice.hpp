// SPDX-License-Identifier: Apache-2.0
// Which device a rank computes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "grid/comm.hpp"

namespace espalier {

/// A rank among those that share memory with it.
struct LocalPlace {
  int rank = 0, ranks = 1;
};

/// A rank of one node: its number in the job, and the PCI addresses of the devices that it sees, by
/// ordinal. A launcher may show each rank all devices of the node, one of its own, or all of them
/// in another order (CUDA_VISIBLE_DEVICES); addresses tell these apart.
struct RankDevices {
  int rank = 0;
  std::vector<std::string> buses;
};

/// The ordinals for the ranks of one node, in the order of their local ranks: each rank in turn
/// takes the first of its devices that the fewest ranks before it have. So local rank r takes
/// device r where all see the same, and device 0 where each sees its own. Errors  LaunchError if a
/// rank sees no device, or if two would share one and `may_share` is false
std::vector<int> choose_devices(const std::vector<RankDevices>& node, const std::string& host,
                                bool may_share);

struct DeviceChoice {
  int ordinal = 0;
  int sharers = 1;  // ranks of the node on this device
  LocalPlace place;
};
/// `buses`: of the devices that this process sees.
/// Collective  over all ranks
/// Errors      as choose_devices, the same on all ranks
DeviceChoice choose_device(const Comm& world, const std::string& host,
                           const std::vector<std::string>& buses, bool may_share);

}  // namespace espalier
