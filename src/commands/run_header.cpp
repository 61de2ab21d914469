// SPDX-License-Identifier: Apache-2.0
#include "commands/run_header.hpp"

#include <algorithm>

#include "commands/blueprint_text.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "tensor/gemm.hpp"
#include "tensor/views.hpp"

namespace espalier {
namespace {

// Further lines of a text under the column where the first one stands.
std::string indent(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 14)
    text.insert(at + 1, 13, ' ');
  return text;
}

}  // namespace

NamedSizes grid_extents(const GridShape& shape) {
  return {{"pp", shape.pipeline}, {"dp", shape.data}, {"cp", shape.context}, {"tp", shape.tensor}};
}

std::vector<std::string> host_names(const Grid& grid) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < grid.world().size(); ++rank) {
    const std::string& host = grid.host_of(rank);
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

RunRecord make_run_record(const Launch& launch, const RunDevice& device, const MemoryBill& bill,
                          double peak_flops) {
  const Blueprint& b = launch.blueprint;
  RunRecord r;
  r.deck_path = b.config.deck_path;
  r.build = build_description();
  r.ranks = launch.grid.world().size();
  r.grid = grid_extents(launch.grid.shape());
  r.hosts = host_names(launch.grid);
  r.compute_type = element_name(b.config.numerics.compute_type);
  r.master_type = element_name(master_type(b.config));
  r.gemm_library = gemm_library();
  if (b.config.monitor.peak_gflops <= 0) r.gemm_gflops = peak_flops * 1e-9;
  r.peak_gflops = peak_flops * 1e-9;
  r.parameters = b.parameters.parameter_count;
  r.flops_per_token = static_cast<double>(b.flops_per_token());
  device.describe(r, bill);
  r.tokens_per_step = b.tokens_per_step;
  r.predicted_step_seconds = static_cast<double>(b.tokens_per_step) *
                             static_cast<double>(b.flops_per_token()) /
                             (peak_flops * static_cast<double>(r.ranks));
  r.total_steps = b.config.run.steps;
  for (const StageRange& s : b.place.stages) r.stage_layers.emplace_back(s.first, s.last);
  return r;
}

void print_data(const BatchSource& data, const Config& config) {
  if (config.data.source != DataSource::files) {
    info("data         random tokens");
    return;
  }
  const int64_t steps = config.run.steps;
  info("data         {} tokens, {:.2f} epochs in this run",
       format_count(static_cast<double>(data.tokens())), data.epochs(steps));
  const std::vector<SourceUse> now = data.sources(0), end = data.sources(steps);
  constexpr size_t kMostSources = 40;
  for (size_t i = 0; i < now.size() && now.size() > 1; ++i) {
    if (i == kMostSources) {
      info("  and {} more sources", now.size() - i);
      break;
    }
    info("  {:<20} {:>9} tokens, {:6.2f} % of the sequences, {:.2f} epochs", now[i].name,
         format_count(static_cast<double>(now[i].tokens)), 100.0 * now[i].share, end[i].epochs);
  }
  if (config.data.packing == Packing::best_fit) {
    const PackingCounts packing = data.packing();
    info("packing      best fit: {:.3f} % padding, {} documents split, {} dropped ({} tokens)",
         100.0 * packing.padding_share(), packing.split_documents, packing.dropped_documents,
         packing.dropped_tokens);
  }
  for (const std::string& note : data.repeat_notes(steps)) info("  {}", note);
  for (const std::string& warning : data.repeat_warnings(steps)) warn("{}", warning);
}

void print_run_header(const RunRecord& r, const Launch& launch, const RunDevice& device,
                      const MemoryBill& bill, const BatchSource& data) {
  const Blueprint& b = launch.blueprint;
  info("espalier     {}", r.build);
  info("deck         {} -> {}", r.deck_path, b.config.run.directory);
  info("grid         {}", indent(launch.grid.describe()));
  for (const std::string& warning : launch.grid.placement_warnings()) print_warning(warning);
  device.print(r);
  info("gemm         {}; {:.1f} GFLOP/s a rank{}", r.gemm_library, r.peak_gflops,
       r.gemm_gflops > 0 ? " measured" : " by monitor.peak_gflops");
  const double nominal = nominal_core_peak() * 1e-9 * Exec::concurrency();
  if (r.gemm_gflops > 0 && nominal > 0 && r.gemm_gflops < 0.4 * nominal)
    warn(
        "the GEMM library reaches {:.0f} GFLOP/s, far below the about {:.0f} of this processor; it "
        "may have picked an old kernel, or other programs use the cores",
        r.gemm_gflops, nominal);
  info("model        {} parameters, {} layers x {}, {}{}",
       format_count(static_cast<double>(r.parameters)), b.config.model.num_layers,
       b.config.model.hidden_size, types_text(b.config),
       b.config.numerics.reproducible ? ", reproducible" : "");
  info("batch        {} sequences x {} tokens = {} tokens a step; {} micro-batches of {} a rank",
       b.config.batch.global_batch_size, b.config.batch.seq_length, r.tokens_per_step,
       b.micro_batches, b.config.batch.micro_batch_size);
  if (r.stage_layers.size() > 1) {
    std::string stages;
    for (const auto& [first, last] : r.stage_layers)
      stages += fmt::format("{}{}-{}", stages.empty() ? "" : ", ", first, last - 1);
    info("stages       {} on {} ranks, layers {}", r.stage_layers.size(),
         b.config.grid.pipeline_parallel, stages);
  }
  print_data(data, b.config);
  print_memory_bill(bill);
  info("forecast     {} a step at the GEMM rate", format_duration(r.predicted_step_seconds));
}

}  // namespace espalier
