// SPDX-License-Identifier: Apache-2.0
// The Cartesian grid of ranks: one communicator an axis, dp in two more, and who is where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deck/config.hpp"
#include "grid/comm.hpp"
#include "grid/mpi_session.hpp"
#include "grid/placement.hpp"

namespace espalier {

/// The ranks as a grid over pipeline, data, context and tensor in the order of grid.rank_order; by
/// default tensor is fastest, so that tensor parallelism stays inside a host. Expert parallelism is
/// no axis: it folds out of data * context.
class Grid {
 public:
  /// Collective  over all ranks
  /// Errors      LaunchError as fit_grid and fit_shards
  static Grid create(const MpiSession& session, const GridConfig& config);

  const Comm& world() const { return world_; }
  const Comm& pp() const { return pp_; }
  const Comm& dp() const { return dp_; }
  const Comm& cp() const { return cp_; }
  const Comm& tp() const { return tp_; }
  /// dp in two: `shard` are neighbouring dp ranks that share one copy of the state (zero_shards of
  /// them, or all), `replica` those with the same index in their shard group.
  const Comm& shard() const { return shard_; }
  const Comm& replica() const { return replica_; }
  /// All of these, for reports.
  std::vector<const Comm*> comms() const {
    return {&world_, &pp_, &dp_, &cp_, &tp_, &shard_, &replica_};
  }

  const GridShape& shape() const { return placement_.shape(); }
  const GridShape& place() const { return place_; }
  const Placement& placement() const { return placement_; }
  /// The place of any rank of world().
  GridShape place_of(int rank) const { return placement_.place_of(rank); }
  /// "rank 5 (pp 0, dp 2, cp 0, tp 1) on host": how errors of one rank begin.
  std::string name_of(int rank) const { return placement_.name_of(rank); }

  /// Extents, and which ranks stand where on which host.
  std::string describe() const { return placement_.describe(); }
  /// What about the hosts will cost time, a sentence each with what to do.
  std::vector<std::string> placement_warnings() const { return placement_.warnings(); }
  const std::string& host_of(int rank) const {
    return placement_.hosts()[static_cast<size_t>(rank)];
  }
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

  Placement placement_;
  GridShape place_;
  Comm world_, pp_, dp_, cp_, tp_, shard_, replica_;
};

}  // namespace espalier
