// SPDX-License-Identifier: Apache-2.0
#include "grid/device_choice.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/test_hooks.hpp"
#include "grid/agreement.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

constexpr size_t kBusBytes = 64;

// The ranks that share memory; a test may pretend that they lie on several hosts.
Comm node_of(const Comm& world) {
  MPI_Comm shared = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Comm_split_type(world.handle(), MPI_COMM_TYPE_SHARED, world.rank(),
                                   MPI_INFO_NULL, &shared));
  Comm node(shared, "node");
  const auto name = host_for_test(world.rank());
  const int color = name ? static_cast<int>(hash_name(*name) & 0x7fffffff) : 0;
  MPI_Comm pretended = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Comm_split(node.handle(), color, node.rank(), &pretended));
  return Comm(pretended, "node");
}

std::vector<RankDevices> gather_devices(const Comm& node, int world_rank,
                                        const std::vector<std::string>& buses) {
  const auto most = node.all_reduce(static_cast<int64_t>(buses.size()), ReduceOp::max);
  const auto width = static_cast<int64_t>(kBusBytes) * most;
  std::vector<char> mine(static_cast<size_t>(width), '\0');
  for (size_t d = 0; d < buses.size(); ++d) buses[d].copy(&mine[d * kBusBytes], kBusBytes - 1);
  std::vector<char> all(static_cast<size_t>(width * node.size()));
  node.all_gather(mine.data(), width, all.data());
  std::vector<int32_t> ranks(static_cast<size_t>(node.size()));
  const int32_t own = world_rank;
  node.all_gather(&own, 1, ranks.data());
  std::vector<RankDevices> devices;
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankDevices one{ranks[r], {}};
    for (int64_t d = 0; d < most; ++d) {
      const char* const bus =
          &all[r * static_cast<size_t>(width) + static_cast<size_t>(d) * kBusBytes];
      if (*bus != '\0') one.buses.emplace_back(bus);
    }
    devices.push_back(std::move(one));
  }
  return devices;
}

}  // namespace

std::vector<int> choose_devices(const std::vector<RankDevices>& node, const std::string& host,
                                bool may_share) {
  std::map<std::string, const RankDevices*> users;  // the first of each device
  std::map<std::string, int> counts;
  std::set<std::string> all;
  for (const RankDevices& one : node) all.insert(one.buses.begin(), one.buses.end());
  std::vector<int> ordinals;
  for (const RankDevices& one : node) {
    if (one.buses.empty())
      throw LaunchError(fmt::format(
          "rank {} on {} sees no GPU; start it where there is one, check that the driver is loaded "
          "(nvidia-smi) and that CUDA_VISIBLE_DEVICES is not empty, or use a build for the host",
          one.rank, host));
    const auto least = std::min_element(
        one.buses.begin(), one.buses.end(),
        [&](const std::string& a, const std::string& b) { return counts[a] < counts[b]; });
    if (counts[*least]++ == 0) {
      users[*least] = &one;
    } else if (!may_share) {
      const auto ranks = node.size(), devices = all.size();
      if (ranks > devices)
        throw LaunchError(fmt::format(
            "rank {} on {}: {} ranks but {} GPU{} on this node; start {} a node, or set "
            "grid.share_devices = true (for tests)",
            one.rank, host, ranks, devices, devices == 1 ? "" : "s", devices));
      throw LaunchError(fmt::format(
          "rank {} on {}: rank {} already computes on GPU {}, and there is no other of the {} GPUs "
          "of this node that both may see; show every rank all of them or one of its own "
          "(CUDA_VISIBLE_DEVICES), or set grid.share_devices = true (for tests)",
          one.rank, host, users[*least]->rank, *least, devices));
    }
    ordinals.push_back(static_cast<int>(least - one.buses.begin()));
  }
  return ordinals;
}

DeviceChoice choose_device(const Comm& world, const std::string& host,
                           const std::vector<std::string>& buses, bool may_share) {
  const Comm node = node_of(world);
  const std::vector<RankDevices> devices = gather_devices(node, world.rank(), buses);
  std::vector<int> ordinals;
  run_agreed(world, [&] { ordinals = choose_devices(devices, host, may_share); });
  DeviceChoice choice;
  choice.place = {node.rank(), node.size()};
  const auto bus_of = [&](size_t r) { return devices[r].buses[static_cast<size_t>(ordinals[r])]; };
  const auto me = static_cast<size_t>(node.rank());
  choice.ordinal = ordinals[me];
  choice.sharers = 0;
  for (size_t r = 0; r < devices.size(); ++r) choice.sharers += bus_of(r) == bus_of(me);
  return choice;
}

}  // namespace espalier
