// SPDX-License-Identifier: Apache-2.0
// Where each rank stands in the grid and on which host, in words too. Knows no MPI.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "deck/config.hpp"

namespace espalier {

/// Extents of the axes, or the place of one rank.
struct GridShape {
  int64_t pipeline = 1, data = 1, context = 1, tensor = 1;
  int64_t ranks() const { return pipeline * data * context * tensor; }
};

/// The extents for this many ranks; data_parallel = 0 takes what the other axes leave.
/// Errors  LaunchError, the same on all ranks, unless their product is `ranks`
GridShape fit_grid(const GridConfig& config, int64_t ranks);

/// Data-parallel ranks that share one copy of the state: grid.zero_shards, or all of them
/// (at zero_stage 0 as well, where nothing is shared).
/// Errors  LaunchError, the same on all ranks, unless it divides shape.data
int64_t fit_shards(const GridConfig& config, const GridShape& shape);

/// The numbers of the ranks as places: grid.rank_order names the axes from the slowest on.
class Placement {
 public:
  static constexpr int kAxes = 4;

  Placement() = default;
  /// `hosts`: of each rank.
  /// Errors  as fit_grid and fit_shards; Internal if there is not one host a rank
  Placement(const GridConfig& config, std::vector<std::string> hosts);

  const GridShape& shape() const { return shape_; }
  int64_t shards() const { return shards_; }
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// Axes by their number in "pp", "dp", "cp", "tp", slowest first.
  const std::array<int, kAxes>& order() const { return order_; }

  GridShape place_of(int64_t rank) const;
  /// "rank 5 (pp 0, dp 2, cp 0, tp 1) on host"
  std::string name_of(int64_t rank) const;

  /// Extents and order, then a table: ranks, their places, their hosts. A line holds a range of
  /// one axis on one host; where that makes more than 32 lines, larger ranges over more hosts.
  std::string describe() const;

  /// One sentence each, with an example and what to do: tensor-parallel groups on several hosts;
  /// shard groups of hybrid sharding on several hosts.
  std::vector<std::string> warnings() const;

 private:
  std::vector<int64_t> line_sizes() const;
  bool is_plain_line(int64_t size) const;
  int64_t ranks_a_line() const;
  std::string line(int64_t first, int64_t size) const;
  std::string hosts_of(int64_t first, int64_t size) const;
  template <class Key>
  std::string leaving(const std::string& what, Key key) const;

  GridShape shape_;
  int64_t shards_ = 1;
  bool is_hybrid_ = false;
  std::string order_text_;
  std::array<int, kAxes> order_ = {0, 1, 2, 3};
  std::vector<std::string> hosts_;
};

}  // namespace espalier
