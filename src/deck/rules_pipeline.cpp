// SPDX-License-Identifier: Apache-2.0
// Rules of the pipeline: blocks, chunks and micro-batches that its schedule needs, and how the
// stages are cut.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "deck/draft.hpp"
#include "deck/guess.hpp"

namespace espalier {
namespace {

constexpr int64_t kMostRanks = 65536;  // as in the key table
constexpr int64_t kMostChunks = 1024;  // as in the key table
constexpr int64_t kMostListed = 16;    // entries of a list that a message can show

void check_chunks(Draft& draft) {
  if (!draft.are_sound({"grid.virtual_stages", "grid.pipeline_schedule", "grid.pipeline_parallel"}))
    return;
  const GridConfig& grid = draft.config.grid;
  const bool is_interleaved = grid.pipeline_schedule == PipelineSchedule::interleaved;
  if (grid.virtual_stages > 1 && !is_interleaved)
    draft.fault("grid.virtual_stages",
                fmt::format("{} has one chunk a rank", draft.equation("grid.pipeline_schedule")),
                "use 1, or pipeline_schedule = \"interleaved\"", {"grid.pipeline_schedule"});
  else if (grid.virtual_stages < 2 && is_interleaved && grid.pipeline_parallel > 1)
    draft.fault(
        "grid.virtual_stages",
        fmt::format("{} needs several chunks a rank", draft.equation("grid.pipeline_schedule")),
        "try 2, or pipeline_schedule = \"1f1b\"", {"grid.pipeline_schedule"});
  else
    return;
  draft.state("grid.virtual_stages").is_sound = false;
}

std::string stages_text(const GridConfig& grid) {
  const int64_t ranks = grid.pipeline_parallel, chunks = grid.virtual_stages;
  if (chunks == 1) return fmt::format("pipeline_parallel = {}", ranks);
  return fmt::format("pipeline_parallel * virtual_stages = {} * {} = {}", ranks, chunks,
                     ranks * chunks);
}

void check_blocks(Draft& draft) {
  if (!draft.are_sound({"model.num_layers", "grid.pipeline_parallel", "grid.virtual_stages"}))
    return;
  const GridConfig& grid = draft.config.grid;
  const int64_t ranks = grid.pipeline_parallel, chunks = grid.virtual_stages;
  const int64_t layers = draft.config.model.num_layers;
  if (ranks * chunks <= layers) return;
  const std::string rule = fmt::format("{} cannot fill {} stages",
                                       draft.equation("model.num_layers"), stages_text(grid));
  if (chunks <= layers && ranks > 1)
    draft.fault("grid.pipeline_parallel", rule,
                try_nearest(ranks, 1, kMostRanks, [=](int64_t v) { return v * chunks <= layers; }),
                {"grid.virtual_stages", "model.num_layers"});
  else
    draft.fault("grid.virtual_stages", rule,
                try_nearest(chunks, 1, kMostChunks, [=](int64_t v) { return ranks * v <= layers; }),
                {"grid.pipeline_schedule", "model.num_layers"});
  draft.state("grid.virtual_stages").is_sound = false;
}

// Interleaving sends groups of as many micro-batches as there are ranks through each chunk.
void check_groups(Draft& draft) {
  if (!draft.are_sound({"batch.global_batch_size", "batch.micro_batch_size",
                        "grid.pipeline_schedule", "grid.pipeline_parallel"}))
    return;
  const Config& c = draft.config;
  if (c.grid.pipeline_schedule != PipelineSchedule::interleaved) return;
  const bool knows_data = draft.are_sound({"grid.data_parallel"}) && c.grid.data_parallel > 0;
  const int64_t data = knows_data ? c.grid.data_parallel : 1;
  const int64_t global = c.batch.global_batch_size, unit = c.batch.micro_batch_size * data;
  const int64_t ranks = c.grid.pipeline_parallel;
  if (global % unit != 0 || global / unit % ranks == 0) return;
  std::string suggestion = try_multiples(global, 1, int64_t{1} << 30, unit * ranks);
  const int64_t most = draft.are_sound({"model.num_layers", "grid.virtual_stages"})
                           ? c.model.num_layers / c.grid.virtual_stages
                           : kMostRanks;
  const std::string others = try_nearest(ranks, 1, std::min(most, global / unit),
                                         [=](int64_t v) { return global / unit % v == 0; });
  if (!others.empty())
    suggestion += fmt::format("{}pipeline_parallel = {}", suggestion.empty() ? "try " : ", or ",
                              others.substr(std::string("try ").size()));
  draft.fault("batch.global_batch_size",
              fmt::format("{} needs a multiple of {} micro-batches on a data-parallel rank, these "
                          "are {}",
                          draft.equation("grid.pipeline_schedule"),
                          draft.equation("grid.pipeline_parallel"), global / unit),
              suggestion,
              {"batch.micro_batch_size", "grid.pipeline_parallel", "grid.pipeline_schedule"});
}

// The list that comes nearest: as long as it must be, and with the sum that it must have.
std::string try_blocks(std::vector<int64_t> blocks, int64_t stages, int64_t layers) {
  if (stages > kMostListed) return fmt::format("give {} numbers that add up to {}", stages, layers);
  const bool has_length = static_cast<int64_t>(blocks.size()) == stages;
  if (!has_length) blocks.assign(static_cast<size_t>(stages), layers / stages);
  int64_t sum = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
  for (; sum < layers; ++sum) ++*std::min_element(blocks.begin(), blocks.end());
  // From the end, where the stage of the output is.
  for (; sum > layers; --sum) --*std::max_element(blocks.rbegin(), blocks.rend());
  return "try " + toml_text(KeyValue(blocks));
}

void check_stage_blocks(Draft& draft) {
  if (!draft.are_sound({"grid.stage_blocks", "model.num_layers", "grid.pipeline_parallel",
                        "grid.virtual_stages"}))
    return;
  const GridConfig& grid = draft.config.grid;
  const std::vector<int64_t>& blocks = grid.stage_blocks;
  if (blocks.empty()) return;
  const auto count = static_cast<int64_t>(blocks.size());
  const int64_t stages = grid.pipeline_parallel * grid.virtual_stages;
  const int64_t layers = draft.config.model.num_layers;
  const int64_t sum = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
  std::string rule;
  if (count != stages)
    rule = fmt::format("{} {}, but {} stage{}", count, count == 1 ? "entry" : "entries",
                       stages_text(grid), stages == 1 ? "" : "s");
  else if (sum != layers)
    rule = fmt::format("the sum is {}, but {}", sum, draft.equation("model.num_layers"));
  if (!rule.empty()) draft.fault("grid.stage_blocks", rule, try_blocks(blocks, stages, layers));
}

void check_stage_times(Draft& draft) {
  if (!draft.are_sound({"grid.stage_balance", "grid.stage_times"})) return;
  const GridConfig& grid = draft.config.grid;
  if (grid.stage_balance == StageBalance::measured && grid.stage_times.empty())
    draft.missing("grid.stage_times",
                  fmt::format("{} needs an earlier run", draft.equation("grid.stage_balance")),
                  "give its run folder, or stage_balance = \"cost\"", {"grid.stage_balance"});
}

}  // namespace

void check_pipeline(Draft& draft) {
  check_chunks(draft);
  check_blocks(draft);
  check_groups(draft);
  check_stage_blocks(draft);
  check_stage_times(draft);
}

}  // namespace espalier
