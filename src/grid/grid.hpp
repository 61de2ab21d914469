// SPDX-License-Identifier: Apache-2.0
// The Cartesian grid of ranks: one communicator an axis, and who is where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "grid/comm.hpp"
#include "grid/mpi_session.hpp"

namespace espalier {

/// Extents of the axes, slowest first; or the place of one rank.
struct GridShape {
  int64_t pipeline = 1, data = 1, context = 1, tensor = 1;
  int64_t ranks() const { return pipeline * data * context * tensor; }
};

/// The extents for this many ranks; data_parallel = 0 takes what the other axes leave.
/// Errors  LaunchError, the same on all ranks, unless their product is `ranks`
GridShape fit_grid(const GridConfig& config, int64_t ranks);

/// The ranks as a grid over (pipeline, data, context, tensor), tensor fastest, so that tensor
/// parallelism stays inside a host. Expert parallelism is no axis: it folds out of data * context.
class Grid {
 public:
  /// Collective  over all ranks
  /// Errors      LaunchError as fit_grid
  static Grid create(const MpiSession& session, const GridConfig& config);

  const Comm& world() const { return world_; }
  const Comm& pp() const { return pp_; }
  const Comm& dp() const { return dp_; }
  const Comm& cp() const { return cp_; }
  const Comm& tp() const { return tp_; }
  /// world and the four axes, for reports.
  std::vector<const Comm*> comms() const { return {&world_, &pp_, &dp_, &cp_, &tp_}; }

  const GridShape& shape() const { return shape_; }
  const GridShape& place() const { return place_; }
  /// The place of any rank of world().
  GridShape place_of(int rank) const;
  /// "rank 5 (pp 0, dp 2, cp 0, tp 1) on host": how errors of one rank begin.
  std::string name_of(int rank) const;

  /// Extents, and the ranks of each host, one line a host.
  std::string describe() const;
  const std::string& host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  /// Hosts of the job.
  int64_t host_count() const;
  /// Ranks on the host of this one.
  int64_t ranks_on_this_host() const;

  /// Demands that all ranks hold the same value of `what` ("the deck").
  /// Collective  over all ranks
  /// Errors      LaunchError, the same on all ranks, that names those outside the largest group
  void require_consistent(uint64_t value, const std::string& what) const;

 private:
  Grid() = default;

  GridShape shape_, place_;
  Comm world_, pp_, dp_, cp_, tp_;
  std::vector<std::string> hosts_;  // by rank of world
};

}  // namespace espalier
