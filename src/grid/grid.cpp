// SPDX-License-Identifier: Apache-2.0
// Makes the grid and its communicators.
#include "grid/grid.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

constexpr int kAxes = Placement::kAxes;
constexpr const char* kAxisNames[kAxes] = {"pp", "dp", "cp", "tp"};
constexpr size_t kHostBytes = 256;

// The dimension `kept` of `cart` as a communicator of its own.
Comm axis_of(MPI_Comm cart, int kept, const char* name) {
  int remain[kAxes] = {0, 0, 0, 0};
  remain[kept] = 1;
  MPI_Comm axis = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Cart_sub(cart, remain, &axis));
  return Comm(axis, name);
}

// The ranks of `whole` with the same color, in its order.
Comm part_of(const Comm& whole, int64_t color, const char* name) {
  MPI_Comm part = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Comm_split(whole.handle(), static_cast<int>(color), whole.rank(), &part));
  return Comm(part, name);
}

std::vector<std::string> gather_hosts(const Comm& world, const std::string& own) {
  std::vector<char> mine(kHostBytes, '\0');
  own.copy(mine.data(), kHostBytes - 1);
  std::vector<char> all(kHostBytes * static_cast<size_t>(world.size()));
  world.all_gather(mine.data(), static_cast<int64_t>(kHostBytes), all.data());
  std::vector<std::string> hosts;
  for (size_t at = 0; at < all.size(); at += kHostBytes) hosts.emplace_back(&all[at]);
  return hosts;
}

}  // namespace

Grid Grid::create(const MpiSession& session, const GridConfig& config) {
  Grid grid;
  const std::string host = host_for_test(session.rank()).value_or(session.host());
  grid.placement_ = Placement(config, gather_hosts(session.world(), host));
  session.world().take_stats();  // the gathering of names is not the run's communication
  const Placement& placement = grid.placement_;
  const GridShape& s = placement.shape();
  const int64_t by_axis[kAxes] = {s.pipeline, s.data, s.context, s.tensor};
  int extents[kAxes] = {}, dimension_of[kAxes] = {};
  for (int d = 0; d < kAxes; ++d) {
    const int axis = placement.order()[static_cast<size_t>(d)];
    extents[d] = static_cast<int>(by_axis[axis]);
    dimension_of[axis] = d;
  }
  const int periods[kAxes] = {1, 1, 1, 1};
  MPI_Comm cart = MPI_COMM_NULL;
  // No reordering: the launcher's order decides what shares a host, and the user sees that order.
  ESPALIER_MPI(MPI_Cart_create(session.world().handle(), kAxes, extents, periods, 0, &cart));
  grid.world_ = Comm(cart, "world");
  Comm* const axes[kAxes] = {&grid.pp_, &grid.dp_, &grid.cp_, &grid.tp_};
  for (int axis = 0; axis < kAxes; ++axis)
    *axes[axis] = axis_of(cart, dimension_of[axis], kAxisNames[axis]);
  grid.place_ = {grid.pp_.rank(), grid.dp_.rank(), grid.cp_.rank(), grid.tp_.rank()};
  grid.shard_ = part_of(grid.dp_, grid.dp_.rank() / placement.shards(), "shard");
  grid.replica_ = part_of(grid.dp_, grid.dp_.rank() % placement.shards(), "replica");
  return grid;
}

int64_t Grid::host_count() const {
  const auto& hosts = placement_.hosts();
  return static_cast<int64_t>(std::set<std::string>(hosts.begin(), hosts.end()).size());
}

int64_t Grid::ranks_on_this_host() const {
  const auto& hosts = placement_.hosts();
  return std::count(hosts.begin(), hosts.end(), host_of(world_.rank()));
}

void Grid::require_consistent(uint64_t value, const std::string& what) const {
  std::vector<uint64_t> values(static_cast<size_t>(world_.size()));
  world_.all_gather(&value, 1, values.data());
  std::map<uint64_t, int> votes;
  for (const uint64_t v : values) ++votes[v];
  if (votes.size() == 1) return;
  uint64_t common = values[0];  // the most frequent; among equals that of the lowest rank
  for (const uint64_t v : values)
    if (votes[v] > votes[common]) common = v;
  std::string others;
  for (size_t r = 0; r < values.size(); ++r)
    if (values[r] != common)
      others += fmt::format("\n  {}: {:016x}", name_of(static_cast<int>(r)), values[r]);
  throw LaunchError(fmt::format(
      "{} is not the same on all ranks: {} of {} hold {:016x}, the others differ; make sure that "
      "every host reads the same file{}",
      what, votes[common], values.size(), common, others));
}

}  // namespace espalier
