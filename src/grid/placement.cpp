// SPDX-License-Identifier: Apache-2.0
// The order of the ranks, its table, and what is unlucky about it.
#include "grid/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostLines = 32;
constexpr const char* kNames[Placement::kAxes] = {"pp", "dp", "cp", "tp"};
using Member = int64_t GridShape::*;
constexpr Member kMembers[Placement::kAxes] = {&GridShape::pipeline, &GridShape::data,
                                               &GridShape::context, &GridShape::tensor};

std::array<int, Placement::kAxes> read_order(const std::string& text) {
  std::array<int, Placement::kAxes> order = {};
  std::istringstream words(text);
  std::string word;
  for (int& axis : order) {
    std::getline(words, word, ',');
    word.erase(std::remove(word.begin(), word.end(), ' '), word.end());
    axis = static_cast<int>(std::find(std::begin(kNames), std::end(kNames), word) - kNames);
  }
  std::array<int, Placement::kAxes> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  ESPALIER_REQUIRE((sorted == std::array<int, Placement::kAxes>{0, 1, 2, 3}),
                   "grid.rank_order = \"{}\" passed the deck's check", text);
  return order;
}

// What the user can do when `ranks` ranks do not fill the other axes evenly.
std::string multiples_near(int64_t ranks, int64_t others) {
  const int64_t below = ranks / others * others;
  return below > 0 ? fmt::format("{} or {} ranks", below, below + others)
                   : fmt::format("{} ranks", below + others);
}

std::string range(int64_t first, int64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
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

int64_t fit_shards(const GridConfig& config, const GridShape& shape) {
  if (config.zero_shards == 0) return shape.data;
  if (shape.data % config.zero_shards == 0)
    return config.zero_stage > 0 ? config.zero_shards : shape.data;
  throw LaunchError(
      fmt::format("grid.zero_shards = {} does not divide the {} data-parallel ranks; set it to a "
                  "divisor of them, or to 0 for all of them",
                  config.zero_shards, shape.data));
}

Placement::Placement(const GridConfig& config, std::vector<std::string> hosts)
    : shape_(fit_grid(config, static_cast<int64_t>(hosts.size()))),
      shards_(fit_shards(config, shape_)),
      is_hybrid_(config.zero_stage > 0 && shards_ > 1 && shards_ < shape_.data),
      order_text_(config.rank_order),
      order_(read_order(config.rank_order)),
      hosts_(std::move(hosts)) {}

GridShape Placement::place_of(int64_t rank) const {
  ESPALIER_REQUIRE(rank >= 0 && rank < shape_.ranks(), "place of rank {} of {}", rank,
                   shape_.ranks());
  GridShape place;
  for (int i = kAxes - 1; i >= 0; --i) {
    const auto member = kMembers[order_[static_cast<size_t>(i)]];
    place.*member = rank % (shape_.*member);
    rank /= shape_.*member;
  }
  return place;
}

std::string Placement::name_of(int64_t rank) const {
  const GridShape p = place_of(rank);
  return fmt::format("rank {} (pp {}, dp {}, cp {}, tp {}) on {}", rank, p.pipeline, p.data,
                     p.context, p.tensor, hosts_[static_cast<size_t>(rank)]);
}

// Numbers of ranks that a line can show as one range an axis, ascending: whole fast axes and a
// divisor of the next one.
std::vector<int64_t> Placement::line_sizes() const {
  std::vector<int64_t> sizes = {1};
  int64_t inner = 1;
  for (int i = kAxes - 1; i >= 0; --i) {
    const int64_t extent = shape_.*kMembers[order_[static_cast<size_t>(i)]];
    for (int64_t d = 2; d <= extent; ++d)
      if (extent % d == 0) sizes.push_back(inner * d);
    inner *= extent;
  }
  return sizes;
}

// Whether every line of this many ranks lies on one host and lets one axis run.
bool Placement::is_plain_line(int64_t size) const {
  const GridShape from = place_of(0), to = place_of(size - 1);
  int running = 0;
  for (const auto member : kMembers) running += from.*member != to.*member ? 1 : 0;
  if (running > 1) return false;
  for (size_t r = 0; r < hosts_.size(); ++r)
    if (hosts_[r] != hosts_[r - r % static_cast<size_t>(size)]) return false;
  return true;
}

int64_t Placement::ranks_a_line() const {
  const std::vector<int64_t> sizes = line_sizes();
  int64_t plain = 1;
  for (const int64_t size : sizes)
    if (is_plain_line(size)) plain = size;
  for (const int64_t size : sizes)
    if (size >= plain && shape_.ranks() / size <= kMostLines) return size;
  return shape_.ranks();
}

std::string Placement::hosts_of(int64_t first, int64_t size) const {
  std::vector<std::string> found;
  for (int64_t r = first; r < first + size; ++r) {
    const std::string& host = hosts_[static_cast<size_t>(r)];
    if (std::find(found.begin(), found.end(), host) == found.end()) found.push_back(host);
  }
  if (found.size() <= 3) return fmt::format("{}", fmt::join(found, ", "));
  return fmt::format("{}, {} ... {} ({} hosts)", found[0], found[1], found.back(), found.size());
}

std::string Placement::line(int64_t first, int64_t size) const {
  const GridShape from = place_of(first), to = place_of(first + size - 1);
  std::string text = fmt::format("\n  {:<11}", range(first, first + size - 1));
  for (const auto member : kMembers) text += fmt::format(" {:<7}", range(from.*member, to.*member));
  return text + " " + hosts_of(first, size);
}

std::string Placement::describe() const {
  std::string text = fmt::format(
      "{} rank{}: pipeline {} x data {} x context {} x tensor {}; the last of {} runs fastest",
      shape_.ranks(), shape_.ranks() == 1 ? "" : "s", shape_.pipeline, shape_.data, shape_.context,
      shape_.tensor, order_text_);
  if (shards_ != shape_.data)
    text += fmt::format("; groups of {} data ranks share one copy of the state", shards_);
  text +=
      fmt::format("\n  {:<11} {:<7} {:<7} {:<7} {:<7} {}", "rank", "pp", "dp", "cp", "tp", "host");
  const int64_t size = ranks_a_line();
  for (int64_t first = 0; first < shape_.ranks(); first += size) text += line(first, size);
  return text;
}

// "2 of 4 WHAT leave their host (ranks 2, 3 on a, b)", or nothing. `key` maps a place to its group.
template <class Key>
std::string Placement::leaving(const std::string& what, Key key) const {
  std::map<decltype(key(shape_)), std::vector<int64_t>> groups;
  for (int64_t r = 0; r < shape_.ranks(); ++r) groups[key(place_of(r))].push_back(r);
  size_t count = 0;
  std::string example;
  for (const auto& [ignored, ranks] : groups) {
    std::vector<std::string> hosts;
    for (const int64_t r : ranks) {
      const std::string& host = hosts_[static_cast<size_t>(r)];
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    if (hosts.size() < 2) continue;
    if (count++ > 0) continue;
    const size_t shown = std::min<size_t>(ranks.size(), 8);
    example = fmt::format(
        "ranks {}{} on {}{}", fmt::join(ranks.begin(), ranks.begin() + shown, ", "),
        shown < ranks.size() ? ", ..." : "",
        fmt::join(hosts.begin(), hosts.begin() + std::min<size_t>(hosts.size(), 4), ", "),
        hosts.size() > 4 ? ", ..." : "");
  }
  if (count == 0) return "";
  return fmt::format("{} of {} {} leave their host, for example {}", count, groups.size(), what,
                     example);
}

std::vector<std::string> Placement::warnings() const {
  std::vector<std::string> found;
  const std::string tensor = leaving("tensor-parallel groups", [](const GridShape& p) {
    return std::make_tuple(p.pipeline, p.data, p.context);
  });
  if (!tensor.empty())
    found.push_back(fmt::format(
        "{}: every block then waits for the network; let tp stand last in grid.rank_order (now "
        "\"{}\"), start a multiple of tensor_parallel = {} ranks on each host in successive order, "
        "or lower it",
        tensor, order_text_, shape_.tensor));
  if (!is_hybrid_) return found;
  const int64_t shards = shards_;
  const std::string state = leaving("shard groups", [shards](const GridShape& p) {
    return std::make_tuple(p.pipeline, p.data / shards, p.context, p.tensor);
  });
  if (!state.empty())
    found.push_back(fmt::format(
        "{}: hybrid sharding keeps the traffic of a shard group inside a host; choose "
        "grid.zero_shards (now {}) so that it times the extents behind dp in grid.rank_order (now "
        "\"{}\") divides the ranks of a host, or move dp back in that order",
        state, shards_, order_text_));
  return found;
}

}  // namespace espalier
