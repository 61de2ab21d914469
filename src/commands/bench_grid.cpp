// SPDX-License-Identifier: Apache-2.0
// espalier bench layouts and pipeline: grids of the same ranks side by side.
#include <algorithm>
#include <memory>
#include <sstream>

#include "commands/bench_timing.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "monitor/memory.hpp"

namespace espalier {
namespace {

std::vector<std::string> with(const BenchRequest& request, const std::string& settings) {
  std::vector<std::string> all = request.overrides;
  std::istringstream words(settings);
  for (std::string word; words >> word;) all.push_back(word);
  return all;
}

/// One variant at work.
struct Variant {
  std::string name;
  std::unique_ptr<Launch> launch;
  std::unique_ptr<StepBench> bench;
  std::vector<double> seconds;
  CommStats stats;  // of all axes
};

void run_one(Variant& v, bool counted) {
  const Comm& world = v.launch->grid.world();
  double took = v.bench->step();
  for (const Comm* axis : v.launch->grid.comms()) {
    const CommStats s = axis->take_stats();
    if (!counted) continue;
    v.stats.bytes += s.bytes;
    v.stats.exposed_seconds += s.exposed_seconds;
  }
  world.all_reduce(&took, 1, ReduceOp::max);
  if (counted) v.seconds.push_back(took);
}

}  // namespace

int bench_layouts(const BenchRequest& request, const std::vector<std::string>& variants) {
  std::vector<Variant> all;
  for (const std::string& settings : variants) {
    Variant v;
    v.name = settings;
    v.launch = std::make_unique<Launch>(launch(request.deck, with(request, settings)));
    v.bench = std::make_unique<StepBench>(*v.launch);
    all.push_back(std::move(v));
  }
  // In turn, so that whatever else the machine does falls on all of them.
  for (int64_t step = 0; step < request.warmup + request.steps; ++step)
    for (Variant& v : all) run_one(v, step >= request.warmup);
  info("{} on {} ranks: median of {} steps in turn", request.deck,
       all.front().launch->grid.world().size(), request.steps);
  info("  {:>10} {:>12} {:>8} {:>12} {:>12}  {}", "step", "tokens/s", "ratio", "exposed",
       "MiB sent", "settings");
  const double steps = static_cast<double>(request.steps);
  const auto rate = [](const Variant& v) {
    return static_cast<double>(v.launch->blueprint.tokens_per_step) / median(v.seconds);
  };
  for (const Variant& v : all)
    info("  {:>10} {:>12.0f} {:>8.3f} {:>10.1f} % {:>12.2f}  {}",
         format_duration(median(v.seconds)), rate(v), rate(v) / rate(all.front()),
         100.0 * v.stats.exposed_seconds / steps / median(v.seconds),
         static_cast<double>(v.stats.bytes) / steps / 1048576.0, v.name);
  return 0;
}

int bench_pipeline(const BenchRequest& request) {
  const Launch base = launch(request.deck, request.overrides);
  const int64_t ranks = base.blueprint.config.grid.pipeline_parallel;
  if (ranks == 1)
    throw DeckError(
        "bench pipeline needs grid.pipeline_parallel of 2 or more; add "
        "--set grid.pipeline_parallel=2 and start as many ranks");
  info("{}: {} pipeline ranks, {} micro-batches; {} steps of each schedule", request.deck, ranks,
       base.blueprint.micro_batches, request.steps);
  info("  {:<12} {:>10} {:>10} {:>10} {:>10} {:>8}  {}", "schedule", "passes", "measured",
       "simulated", "formula", "ratio", "seconds of the stages");
  for (const char* kind : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    const bool interleaved = std::string(kind) == "interleaved";
    const std::string settings =
        fmt::format("grid.pipeline_schedule={} grid.virtual_stages={}", kind, interleaved ? 2 : 1);
    DeckRequest deck{request.deck, with(request, settings), base.grid.world().size()};
    if (const DeckResult judged = read_deck(deck); !judged.ok()) {
      info("  {:<12} not legal for this deck: {}", kind, judged.faults.front().text());
      continue;
    }
    const Launch l = launch(request.deck, with(request, settings));
    StepBench bench(l);
    std::vector<PipelineTimes> all;
    for (int64_t step = 0; step < request.warmup + request.steps; ++step) {
      bench.step();
      const PipelineTimes times = bench.session().pipeline_times();
      if (step >= request.warmup) all.push_back(times);
    }
    std::sort(all.begin(), all.end(), [](const PipelineTimes& a, const PipelineTimes& b) {
      return a.makespan < b.makespan;
    });
    const PipelineTimes& t = all[all.size() / 2];
    const auto m = static_cast<double>(l.blueprint.micro_batches);
    std::vector<StageSeconds> costs;
    StageSeconds mean{0, 0, 0};
    std::string text;
    for (const ChunkSeconds& s : t.stages) {
      const bool split = s.backward_weight > 0;
      const double input = split ? s.backward_input : s.backward_input / 2;
      costs.push_back(
          {s.forward / m, input / m, (s.backward_input + s.backward_weight - input) / m});
      const auto n = static_cast<double>(t.stages.size());
      mean.forward += costs.back().forward / n;
      mean.backward_input += costs.back().backward_input / n;
      mean.backward_weight += costs.back().backward_weight / n;
      text += (text.empty() ? "" : ", ") + format_duration(s.total());
    }
    const double simulated = simulate(l.blueprint.schedule, costs).bubble;
    const double formula =
        bubble_formula(l.blueprint.schedule.kind, ranks, l.blueprint.schedule.chunks,
                       l.blueprint.micro_batches, mean);
    info("  {:<12} {:>10} {:>8.2f} % {:>8.2f} % {:>8.2f} % {:>8.3f}  {}", kind,
         format_duration(t.makespan), 100 * t.bubble(), 100 * simulated, 100 * formula,
         t.bubble() / formula, text);
  }
  return 0;
}

}  // namespace espalier
