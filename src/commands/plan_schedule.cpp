// SPDX-License-Identifier: Apache-2.0
#include "commands/plan_schedule.hpp"

#include <algorithm>
#include <numeric>

#include "blueprint/schedule.hpp"
#include "core/error.hpp"
#include "core/log.hpp"

namespace espalier {
namespace {

const char* schedule_name(PipelineSchedule kind) {
  switch (kind) {
    case PipelineSchedule::gpipe: return "gpipe";
    case PipelineSchedule::one_forward_one_backward: return "1f1b";
    case PipelineSchedule::interleaved: return "interleaved";
    case PipelineSchedule::zero_bubble: return "zero_bubble";
  }
  return "?";
}

const char* layout_name(const GridConfig& grid) {
  if (!grid.stage_blocks.empty()) return "stage_blocks";
  switch (grid.stage_balance) {
    case StageBalance::cost: return "stage_balance = \"cost\"";
    case StageBalance::even: return "stage_balance = \"even\"";
    case StageBalance::measured: return "stage_balance = \"measured\"";
  }
  return "?";
}

const char* plural(int64_t count) {
  return count == 1 ? "" : "s";
}

void print_lines(const std::string& text) {
  size_t begin = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    print_line(text.substr(begin, end - begin));
}

// In units of the mean forward pass of a stage. A backward pass costs two forward ones, one for the
// gradient of the input and one for that of the weights.
std::vector<StageSeconds> stage_seconds(const std::vector<double>& costs) {
  const double mean =
      std::accumulate(costs.begin(), costs.end(), 0.0) / static_cast<double>(costs.size());
  std::vector<StageSeconds> seconds;
  for (const double cost : costs) seconds.push_back({cost / mean, cost / mean, cost / mean});
  return seconds;
}

std::string blocks_text(const StageRange& range) {
  const int64_t count = range.last - range.first;
  if (count == 1) return fmt::format("block {}", range.first);
  return fmt::format("blocks {} to {} ({})", range.first, range.last - 1, count);
}

void print_stages(const Schedule& s, const std::vector<StageRange>& ranges,
                  const std::vector<double>& costs) {
  const double sum = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (int64_t g = 0; g < s.stages(); ++g) {
    const auto at = static_cast<size_t>(g);
    std::string parts = blocks_text(ranges[at]);
    if (g == 0) parts = "embedding, " + parts;
    if (g == s.stages() - 1) parts += ", final norm, output and loss";
    const std::string chunk = s.chunks == 1 ? "" : fmt::format(", chunk {}", g / s.ranks);
    info("  stage {:<3} rank {}{}: {}: {:.1f} % of the work", g, g % s.ranks, chunk, parts,
         100 * costs[at] / sum);
  }
}

void print_balance(const GridConfig& grid, const ModelCosts& costs,
                   const std::vector<StageRange>& ranges) {
  const std::vector<double> ranks = rank_costs(costs, ranges, grid.pipeline_parallel);
  const auto slowest = std::max_element(ranks.begin(), ranks.end());
  const double mean =
      std::accumulate(ranks.begin(), ranks.end(), 0.0) / static_cast<double>(ranks.size());
  info("balance      by {}: rank {} has the most to do, {:.3f} times the mean", layout_name(grid),
       slowest - ranks.begin(), *slowest / mean);
}

// Few enough micro-batches to be read; the pattern repeats.
void print_drawing(const Schedule& whole, const std::vector<StageSeconds>& seconds) {
  const int64_t few = std::min(
      whole.micro_batches, std::max<int64_t>(2, whole.chunks > 1 ? whole.ranks : 2 * whole.ranks));
  const Schedule s = make_schedule(whole.kind, whole.ranks, whole.chunks, few);
  if (few < whole.micro_batches)
    info("drawing      the first {} of {} micro-batches, as if they were all", few,
         whole.micro_batches);
  else
    info("drawing");
  print_lines(draw_schedule(s, simulate(s, seconds)));
}

void print_slots(const Schedule& s) {
  info("slots        most micro-batches whose activations a rank keeps at once:");
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    std::string text = fmt::format("  rank {}:", rank);
    for (int64_t chunk = 0; chunk < s.chunks; ++chunk)
      text += fmt::format("{} {}", chunk == 0 ? "" : ",", slots(s, rank, chunk)) +
              (s.chunks == 1 ? "" : fmt::format(" of chunk {}", chunk));
    print_line(text);
  }
}

void print_bubble(const Schedule& s, const std::vector<StageSeconds>& seconds) {
  const ScheduleTiming timing = simulate(s, seconds);
  const ScheduleTiming equal =
      simulate(s, std::vector<StageSeconds>(static_cast<size_t>(s.stages())));
  info("bubble       {:.1f} % of the ranks' time, {:.1f} % of that of the busiest rank",
       100 * timing.bubble, 100 * timing.slowest_bubble);
  const bool has_formula = s.kind != PipelineSchedule::zero_bubble || s.micro_batches >= s.ranks;
  info("             {:.1f} % with equal stages, by formula {}", 100 * equal.bubble,
       has_formula ? fmt::format("{:.1f} %",
                                 100 * bubble_formula(s.kind, s.ranks, s.chunks, s.micro_batches))
                   : fmt::format("only from {} micro-batches on", s.ranks));
}

void print_check(const Schedule& s) {
  const ScheduleCheck check = check_schedule(s);
  for (const std::string& fault : check.faults) info("  {}", fault);
  if (!check.ok())
    throw InternalError(fmt::format("the schedule has {} fault{}; please report it",
                                    check.faults.size(), check.faults.size() == 1 ? "" : "s"));
  size_t actions = 0;
  for (const auto& list : s.by_rank) actions += list.size();
  info(
      "check        {} actions: all work once and in order, every send has its receive, no "
      "deadlock",
      actions);
}

}  // namespace

void print_schedule(const Config& config, const ModelCosts& costs,
                    const std::vector<StageRange>& ranges, ActionLists lists) {
  const GridConfig& grid = config.grid;
  const int64_t data = std::max<int64_t>(1, grid.data_parallel);
  const int64_t micro_batches =
      config.batch.global_batch_size / (config.batch.micro_batch_size * data);
  const Schedule s = make_schedule(grid.pipeline_schedule, grid.pipeline_parallel,
                                   grid.virtual_stages, micro_batches);
  info(
      "schedule     {} on {} rank{} with {} chunk{} each; {} micro-batch{} on each of {} "
      "data-parallel rank{}",
      schedule_name(s.kind), s.ranks, plural(s.ranks), s.chunks, plural(s.chunks), s.micro_batches,
      s.micro_batches == 1 ? "" : "es", data, plural(data));
  const std::vector<double> by_stage = stage_costs(costs, ranges);
  print_stages(s, ranges, by_stage);
  print_balance(grid, costs, ranges);
  print_check(s);
  const std::vector<StageSeconds> seconds = stage_seconds(by_stage);
  print_drawing(s, seconds);
  print_slots(s);
  print_bubble(s, seconds);
  if (lists == ActionLists::hidden) return;
  info("actions      F forward, B backward, W of the weights; <F received, F> sent; {}",
       s.chunks == 1 ? "then the micro-batch" : "then micro-batch.chunk");
  for (int64_t rank = 0; rank < s.ranks; ++rank) {
    info("  rank {}", rank);
    print_lines(action_list(s, rank));
  }
}

}  // namespace espalier
