// SPDX-License-Identifier: Apache-2.0
// Rules of the grid: which extents divide what, ranks, batch, and what this release can do.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "deck/draft.hpp"
#include "deck/guess.hpp"

namespace espalier {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;
constexpr int64_t kMaxExtent = 65536;  // of one axis, as in the key table

int64_t saturating_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (factor > std::numeric_limits<int64_t>::max() / product)
      return std::numeric_limits<int64_t>::max();
    product *= factor;
  }
  return product;
}

bool is_power_of_two(int64_t v) {
  return v > 0 && (v & (v - 1)) == 0;
}

int64_t value_of(const Draft& draft, const char* name) {
  return std::get<int64_t>(draft.value(name));
}

/// An axis of the grid and the keys that its extent must divide.
struct Axis {
  const char* name;
  std::vector<const char*> cuts;
};

std::vector<Axis> axes(const Draft& draft) {
  std::vector<Axis> all = {{"grid.tensor_parallel", {"model.num_heads", "model.intermediate_size"}},
                           {"grid.context_parallel", {"batch.seq_length"}}};
  if (draft.config.grid.sequence_parallel) all[0].cuts.push_back("batch.seq_length");
  return all;
}

bool divides_all(const Draft& draft, const Axis& axis, int64_t extent) {
  for (const char* cut : axis.cuts)
    if (draft.are_sound({cut}) && value_of(draft, cut) % extent != 0) return false;
  return true;
}

void check_axis(Draft& draft, const Axis& axis) {
  if (!draft.are_sound({axis.name})) return;
  const int64_t extent = value_of(draft, axis.name);
  for (const char* cut : axis.cuts) {
    if (!draft.are_sound({cut}) || value_of(draft, cut) % extent == 0) continue;
    const bool by_sequence =
        std::string(axis.name) == "grid.tensor_parallel" && std::string(cut) == "batch.seq_length";
    draft.fault(
        axis.name,
        fmt::format("{} is not a multiple of {}{}", draft.equation(cut), extent,
                    by_sequence ? ", and sequence_parallel cuts it" : ""),
        try_nearest(extent, 1, kMaxExtent, [&](int64_t v) { return divides_all(draft, axis, v); }));
  }
}

void check_experts(Draft& draft) {
  if (!draft.are_sound({"grid.expert_parallel", "grid.data_parallel", "grid.context_parallel"}))
    return;
  const GridConfig& grid = draft.config.grid;
  if (grid.data_parallel == 0) return;
  const int64_t pool = grid.data_parallel * grid.context_parallel;
  if (pool % grid.expert_parallel != 0)
    draft.fault(
        "grid.expert_parallel",
        fmt::format("data_parallel * context_parallel = {} * {} = {} is not a multiple of {}",
                    grid.data_parallel, grid.context_parallel, pool, grid.expert_parallel),
        try_nearest(grid.expert_parallel, 1, std::min(kMaxExtent, pool),
                    [=](int64_t v) { return pool % v == 0; }));
}

void check_release(Draft& draft) {
  for (const char* name : {"grid.context_parallel", "grid.expert_parallel"})
    if (draft.are_sound({name}) && value_of(draft, name) > 1)
      draft.fault(name, "not available in this release", "use 1");
}

std::string product_text(const GridConfig& grid) {
  return fmt::format("tensor {} * pipeline {} * context {}", grid.tensor_parallel,
                     grid.pipeline_parallel, grid.context_parallel);
}

// With data_parallel left open: the other axes must divide the ranks.
void fill_data_parallel(Draft& draft, int64_t ranks, int64_t others) {
  if (ranks % others == 0) {
    draft.set_automatic("grid.data_parallel", ranks / others, {});
    return;
  }
  const std::string rule = fmt::format("{} = {} does not divide the {} ranks asked",
                                       product_text(draft.config.grid), others, ranks);
  std::vector<Axis> all = axes(draft);
  all.push_back({"grid.pipeline_parallel", {}});
  for (const Axis& axis : all) {
    const int64_t extent = value_of(draft, axis.name);
    if (extent == 1) continue;
    const int64_t rest = others / extent;
    draft.fault(axis.name, rule,
                try_nearest(extent, 1, std::min(kMaxExtent, ranks), [&](int64_t v) {
                  return ranks % (rest * v) == 0 && divides_all(draft, axis, v);
                }));
    break;
  }
  draft.state("grid.data_parallel").is_sound = false;
}

void check_ranks(Draft& draft, int64_t ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    draft.fault_at({"--ranks", 0, 0}, "", "", fmt::format("{} is not 1 to {}", ranks, kMaxRanks),
                   "");
    draft.state("grid.data_parallel").is_sound = false;
    return;
  }
  if (!draft.are_sound({"grid.data_parallel", "grid.tensor_parallel", "grid.pipeline_parallel",
                        "grid.context_parallel"}))
    return;
  const GridConfig& grid = draft.config.grid;
  const int64_t others =
      saturating_product({grid.tensor_parallel, grid.pipeline_parallel, grid.context_parallel});
  if (grid.data_parallel == 0) return fill_data_parallel(draft, ranks, others);
  const int64_t product = saturating_product({others, grid.data_parallel});
  if (product == ranks) return;
  const std::string product_is =
      product > kMaxRanks ? fmt::format("is above {}", kMaxRanks) : fmt::format("= {}", product);
  std::string suggestion = fmt::format("ask for {} ranks", product);
  if (product > kMaxRanks) suggestion.clear();
  if (ranks % others == 0)
    suggestion =
        fmt::format("try {}{}", ranks / others, suggestion.empty() ? "" : ", or ") + suggestion;
  draft.fault("grid.data_parallel",
              fmt::format("data {} * {} {}, but {} ranks were asked", grid.data_parallel,
                          product_text(grid), product_is, ranks),
              suggestion,
              {"grid.tensor_parallel", "grid.pipeline_parallel", "grid.context_parallel"});
  draft.state("grid.data_parallel").is_sound = false;
}

void check_batch(Draft& draft) {
  if (!draft.are_sound({"batch.global_batch_size", "batch.micro_batch_size"})) return;
  const int64_t global = draft.config.batch.global_batch_size;
  const int64_t micro = draft.config.batch.micro_batch_size;
  const bool knows_ranks =
      draft.are_sound({"grid.data_parallel"}) && draft.config.grid.data_parallel > 0;
  const int64_t data = knows_ranks ? draft.config.grid.data_parallel : 1;
  const int64_t unit = micro * data;
  if (global % unit == 0) return;
  std::string suggestion = try_multiples(global, 1, int64_t{1} << 30, unit);
  const auto add = [&](const char* name, const std::string& tries) {
    if (!tries.empty())
      suggestion += fmt::format("{}{} = {}", suggestion.empty() ? "try " : ", or ", name,
                                tries.substr(std::string("try ").size()));
  };
  if (knows_ranks)
    add("data_parallel", try_nearest(data, 1, std::min(kMaxRanks, global / micro),
                                     [=](int64_t v) { return global % (micro * v) == 0; }));
  add("micro_batch_size", try_nearest(micro, 1, std::min(int64_t{1} << 20, global / data),
                                      [=](int64_t v) { return global % (data * v) == 0; }));
  draft.fault("batch.global_batch_size",
              knows_ranks ? fmt::format("micro_batch_size * data_parallel = {} * {} = {} does not "
                                        "divide it",
                                        micro, data, unit)
                          : fmt::format("micro_batch_size = {} does not divide it", micro),
              suggestion, {"batch.micro_batch_size", "grid.data_parallel"});
}

// bf16 is rounded once a transfer, and a single rank transfers nothing: the bits would depend on
// the number of ranks.
void check_reproducible_wire(Draft& draft) {
  if (!draft.are_sound({"numerics.reproducible", "numerics.gradient_reduce_type"})) return;
  const NumericsConfig& numerics = draft.config.numerics;
  if (numerics.reproducible && numerics.gradient_reduce_type == ElementType::bf16)
    draft.fault(
        "numerics.gradient_reduce_type",
        "numerics.reproducible = true, but gradients that travel as bf16 are rounded on the "
        "way, more often on more ranks",
        "try \"fp32\"", {"numerics.reproducible"});
}

// The sums run in a binary tree whose top is the ranks.
void check_reproducible(Draft& draft) {
  if (!draft.are_sound({"numerics.reproducible", "grid.data_parallel"})) return;
  const int64_t data = draft.config.grid.data_parallel;
  if (!draft.config.numerics.reproducible || data == 0 || is_power_of_two(data)) return;
  const BatchConfig& batch = draft.config.batch;
  const bool knows_batch = draft.are_sound({"batch.global_batch_size", "batch.micro_batch_size"});
  std::string suggestion;
  if (knows_batch)
    suggestion = try_nearest(
        data, 1, std::min(kMaxRanks, batch.global_batch_size / batch.micro_batch_size),
        [&](int64_t v) {
          return is_power_of_two(v) && batch.global_batch_size % (batch.micro_batch_size * v) == 0;
        });
  if (suggestion.empty()) suggestion = try_nearest(data, 1, kMaxRanks, is_power_of_two);
  draft.fault("grid.data_parallel",
              "numerics.reproducible = true adds in a binary tree, so it must be a power of two",
              suggestion, {"numerics.reproducible"});
}

}  // namespace

void check_grid(Draft& draft, std::optional<int64_t> ranks) {
  check_release(draft);
  for (const Axis& axis : axes(draft)) check_axis(draft, axis);
  if (ranks) check_ranks(draft, *ranks);
  check_experts(draft);
  check_batch(draft);
  check_reproducible(draft);
  check_reproducible_wire(draft);
}

}  // namespace espalier
