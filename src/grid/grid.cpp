// SPDX-License-Identifier: Apache-2.0
// Makes the grid, and words for it.
#include "grid/grid.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/error.hpp"
#include "grid/mpi_check.hpp"

namespace espalier {
namespace {

constexpr int kAxes = 4;
constexpr size_t kHostBytes = 256;

// Axis `kept` of the grid as a communicator of its own.
Comm axis_of(MPI_Comm cart, int kept, const char* name) {
  int remain[kAxes] = {0, 0, 0, 0};
  remain[kept] = 1;
  MPI_Comm axis = MPI_COMM_NULL;
  ESPALIER_MPI(MPI_Cart_sub(cart, remain, &axis));
  return Comm(axis, name);
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

// "0-3, 7"
std::string ranges(const std::vector<int>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
  }
  return text;
}

// What the user can do when `ranks` ranks do not fill the other axes evenly.
std::string multiples_near(int64_t ranks, int64_t others) {
  const int64_t below = ranks / others * others;
  return below > 0 ? fmt::format("{} or {} ranks", below, below + others)
                   : fmt::format("{} ranks", below + others);
}

}  // namespace

GridShape fit_grid(const GridConfig& config, int64_t ranks) {
  GridShape shape{config.pipeline_parallel, config.data_parallel, config.context_parallel,
                  config.tensor_parallel};
  const int64_t others = shape.pipeline * shape.context * shape.tensor;
  const std::string factors =
      fmt::format("pipeline_parallel * context_parallel * tensor_parallel = {} * {} * {} = {}",
                  shape.pipeline, shape.context, shape.tensor, others);
  if (shape.data == 0) {
    if (ranks % others != 0)
      throw LaunchError(
          fmt::format("grid.{} does not divide the {} ranks that were started; start "
                      "{}, or lower one of these keys",
                      factors, ranks, multiples_near(ranks, others)));
    shape.data = ranks / others;
  }
  if (shape.ranks() == ranks) return shape;
  throw LaunchError(fmt::format(
      "grid.data_parallel = {} with {} needs {} ranks, but {} were started; start {} ranks{}",
      shape.data, factors, shape.ranks(), ranks, shape.ranks(),
      ranks % others == 0 ? fmt::format(", or set grid.data_parallel = {}", ranks / others) : ""));
}

Grid Grid::create(const MpiSession& session, const GridConfig& config) {
  Grid grid;
  grid.shape_ = fit_grid(config, session.size());
  const GridShape& s = grid.shape_;
  const int extents[kAxes] = {static_cast<int>(s.pipeline), static_cast<int>(s.data),
                              static_cast<int>(s.context), static_cast<int>(s.tensor)};
  const int periods[kAxes] = {1, 1, 1, 1};
  MPI_Comm cart = MPI_COMM_NULL;
  // No reordering: the launcher's order decides what shares a host, and the user sees that order.
  ESPALIER_MPI(MPI_Cart_create(session.world().handle(), kAxes, extents, periods, 0, &cart));
  grid.world_ = Comm(cart, "world");
  grid.pp_ = axis_of(cart, 0, "pp");
  grid.dp_ = axis_of(cart, 1, "dp");
  grid.cp_ = axis_of(cart, 2, "cp");
  grid.tp_ = axis_of(cart, 3, "tp");
  grid.place_ = {grid.pp_.rank(), grid.dp_.rank(), grid.cp_.rank(), grid.tp_.rank()};
  grid.hosts_ = gather_hosts(grid.world_, session.host());
  grid.world_.take_stats();  // the gathering of names is not the run's communication
  return grid;
}

GridShape Grid::place_of(int rank) const {
  GridShape place;
  place.tensor = rank % shape_.tensor;
  place.context = rank / shape_.tensor % shape_.context;
  place.data = rank / (shape_.tensor * shape_.context) % shape_.data;
  place.pipeline = rank / (shape_.tensor * shape_.context * shape_.data);
  return place;
}

std::string Grid::name_of(int rank) const {
  const GridShape p = place_of(rank);
  return fmt::format("rank {} (pp {}, dp {}, cp {}, tp {}) on {}", rank, p.pipeline, p.data,
                     p.context, p.tensor, host_of(rank));
}

std::string Grid::describe() const {
  std::string text =
      fmt::format("{} ranks: pipeline {} x data {} x context {} x tensor {}", shape_.ranks(),
                  shape_.pipeline, shape_.data, shape_.context, shape_.tensor);
  std::map<std::string, std::vector<int>> by_host;
  for (size_t r = 0; r < hosts_.size(); ++r) by_host[hosts_[r]].push_back(static_cast<int>(r));
  for (const auto& [host, ranks] : by_host)
    text += fmt::format("\n  {}: rank{} {}", host, ranks.size() == 1 ? "" : "s", ranges(ranks));
  return text;
}

int64_t Grid::host_count() const {
  return static_cast<int64_t>(std::set<std::string>(hosts_.begin(), hosts_.end()).size());
}

int64_t Grid::ranks_on_this_host() const {
  return std::count(hosts_.begin(), hosts_.end(), host_of(world_.rank()));
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
