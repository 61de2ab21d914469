// SPDX-License-Identifier: Apache-2.0
// espalier bench: speeds as ratios to the GEMM rate of the same cores in the same run.
#include <algorithm>
#include <memory>

#include "commands/bench_timing.hpp"
#include "commands/blueprint_text.hpp"
#include "commands/overrides.hpp"
#include "commands/verbs.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "monitor/memory.hpp"
#include "tensor/gemm.hpp"
#include "tensor/profile.hpp"
#include "tensor/views.hpp"

namespace espalier {
namespace {

void print_parts(const StepTiming& t) {
  double known = 0.0;
  for (int p = 0; p < kPartCount; ++p) {
    double s = t.parts[p];
    const auto part = static_cast<Part>(p);
    if (part == Part::communication) s += t.exposed;
    if (part == Part::data) s += t.data_wait;
    if (part == Part::other) s = std::max(0.0, t.seconds - known);
    known += s;
    info("  {:<14} {:>9.1f} ms  {:>5.1f} %", part_name(part), s * 1e3, 100.0 * s / t.seconds);
  }
}

// Device time that belongs to no part. Kernels of one part that wait for each other's start count
// as work of the part, so the true share is larger; with graphs nothing inside is timed.
void print_idle(const StepTiming& t, const Config& config) {
  if constexpr (!device::kPresent) return;
  if (config.numerics.graphs) {
    info(
        "idle         not known: inside a graph nothing is timed; add --set numerics.graphs=false");
    return;
  }
  double busy = 0.0;
  for (const double seconds : t.parts) busy += seconds;
  info("idle         {:.2f} % of the step lies between the parts' work on the device (graphs off)",
       100.0 * std::max(0.0, 1.0 - busy / t.mean));
}

int bench_step(const BenchRequest& request) {
  const Launch started = launch(request.deck, request.overrides);
  const Blueprint& b = started.blueprint;
  const StepTiming t = time_steps(started, request);
  const double tokens = static_cast<double>(b.tokens_per_step);
  const double flops = tokens * static_cast<double>(b.flops_per_token());
  const double matmul = tokens * static_cast<double>(b.matmul_flops_per_token);
  print_blueprint(b);
  info("gemm         {}", gemm_library());
  info("ranks        {} ({} thread each); median of {} steps after {}", started.grid.world().size(),
       Exec::concurrency(), request.steps, request.warmup);
  info("step         {} (fastest {})", format_duration(t.seconds), format_duration(t.fastest));
  info("tokens/s     {:.0f}", tokens / t.seconds);
  info("achieved     {:.1f} GFLOP/s", flops / t.seconds * 1e-9);
  const int64_t extent = gemm_extent(2048);
  info("gemm peak    {:.1f} GFLOP/s ({} x {} x {} on the same ranks, best of this run)",
       t.gemm_rate * 1e-9, extent, extent, extent);
  info("share        {:.1f} % of the gemm peak", 100.0 * flops / t.seconds / t.gemm_rate);
  if (const double peak = b.config.monitor.peak_gflops; peak > 0.0)
    info("MFU          {:.2f} % of {:.0f} GFLOP/s a rank (monitor.peak_gflops)",
         100.0 * flops / t.seconds / (peak * 1e9 * started.grid.world().size()), peak);
  info("products     {:.1f} GFLOP/s inside the matmul part",
       matmul / started.grid.world().size() / t.parts[static_cast<int>(Part::matmul)] * 1e-9);
  info("exposed      {:.2f} % of the step; {} sent a rank and step", 100.0 * t.exposed / t.seconds,
       format_bytes(static_cast<double>(t.bytes)));
  info("data wait    {:.2f} % of the step", 100.0 * t.data_wait / t.seconds);
  print_idle(t, b.config);
  info("peak memory  {}{}", format_bytes(static_cast<double>(peak_resident_bytes())),
       device::kPresent ? fmt::format(" on the host, {} on the device (predicted {})",
                                      format_bytes(static_cast<double>(t.device_peak)),
                                      format_bytes(static_cast<double>(t.device_predicted)))
                        : std::string());
  info("time by part, rank 0, mean:");
  print_parts(t);
  return 0;
}

int bench_gemm(const BenchRequest& request) {
  MpiSession& session = mpi_session();
  compute_session().start({});
  GridConfig all;  // every rank on the data-parallel axis
  const Grid grid = Grid::create(session, all);
  info("gemm         {}", gemm_library());
  for (int64_t size = 256; size <= request.size; size *= 2) {
    const double rate = gemm_rate_of_all(
        grid.world(), device::kPresent ? ElementType::bf16 : ElementType::fp32, size, 0.5);
    info("  {:>5} x {:<5} x {:<5} {:>8.1f} GFLOP/s on {} ranks", size, size, size, rate * 1e-9,
         grid.world().size());
  }
  return 0;
}

// One row: the deck with other extents, its cost a token, and the cost that the work predicts.
void scaling_row(const BenchRequest& request, const std::string& layers, const std::string& length,
                 double& seconds_per_flop) {
  BenchRequest one = request;
  one.overrides.push_back("model.num_layers=" + layers);
  one.overrides.push_back("batch.seq_length=" + length);
  const Launch started = launch(one.deck, one.overrides);
  const Blueprint& b = started.blueprint;
  const StepTiming t = time_steps(started, one);
  const double per_token = t.seconds / static_cast<double>(b.tokens_per_step);
  const double flops = static_cast<double>(b.flops_per_token());
  if (seconds_per_flop == 0.0) seconds_per_flop = per_token / flops;
  info("  {:>6} {:>8} {:>12.2f} {:>14.2f} {:>12.1f} {:>12.3f} {:>10.3f}", layers, length,
       flops * 1e-6, b.attention_flops_per_token * 1e-6, per_token * 1e6, per_token / flops * 1e12,
       per_token / flops / seconds_per_flop);
}

int bench_scaling(const BenchRequest& request) {
  const Launch base = launch(request.deck, request.overrides);
  const int64_t layers = base.blueprint.config.model.num_layers;
  const int64_t length = base.blueprint.config.batch.seq_length;
  info("cost a token of {}; the last column is the cost a FLOP relative to the first row",
       request.deck);
  info("  {:>6} {:>8} {:>12} {:>14} {:>12} {:>12} {:>10}", "layers", "length", "MFLOP/token",
       "attention", "us/token", "ps/FLOP", "relative");
  double reference = 0.0;
  for (const int64_t factor : {1, 2, 3, 4})
    scaling_row(request, std::to_string(std::max<int64_t>(1, layers * factor / 2)),
                std::to_string(length), reference);
  for (const int64_t factor : {1, 2, 4, 8})
    scaling_row(request, std::to_string(layers),
                std::to_string(std::max<int64_t>(1, length * factor / 2)), reference);
  return 0;
}

CLI::App* add_deck_bench(CLI::App& verb, const char* name, const char* help,
                         const std::shared_ptr<BenchRequest>& r) {
  CLI::App* bench = verb.add_subcommand(name, help);
  bench->add_option("DECK", r->deck, "The deck (TOML)")->required();
  add_overrides(*bench, r->overrides);
  bench->add_option("--steps", r->steps, "Steps that count (default 5)")
      ->check(CLI::PositiveNumber);
  bench->add_option("--warmup", r->warmup, "Steps before them (default 1)")
      ->check(CLI::NonNegativeNumber);
  return bench;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("bench", "Measure speed");
  verb->require_subcommand(1);
  const auto r = std::make_shared<BenchRequest>();
  add_deck_bench(*verb, "step", "Whole training steps of a deck, by part", r)
      ->callback([r, &action] { action = [r] { return bench_step(*r); }; });
  add_deck_bench(*verb, "scaling", "Cost a token over numbers of layers and sequence lengths", r)
      ->callback([r, &action] { action = [r] { return bench_scaling(*r); }; });
  add_deck_bench(*verb, "pipeline", "Every pipeline schedule: bubble measured and by the formula",
                 r)
      ->callback([r, &action] { action = [r] { return bench_pipeline(*r); }; });
  const auto variants = std::make_shared<std::vector<std::string>>();
  CLI::App* layouts = add_deck_bench(*verb, "layouts",
                                     "Settings of the deck side by side, step by step in turn", r);
  layouts
      ->add_option(
          "--with", *variants,
          "Settings of one variant, \"section.key=value ...\", without blanks inside a value; "
          "ratios are to the first")
      ->required();
  layouts->callback(
      [r, variants, &action] { action = [r, variants] { return bench_layouts(*r, *variants); }; });
  CLI::App* gemm = verb->add_subcommand("gemm", "The library's matrix products, all ranks at once");
  gemm->add_option("--size", r->size, "Largest extent (default 2048)")
      ->check(CLI::Range(256, 16384));
  gemm->callback([r, &action] { action = [r] { return bench_gemm(*r); }; });
  add_bench_checkpoint(*verb, action);
  add_bench_corpus(*verb, action);
  add_bench_saving(*verb, action);
  add_bench_kernels(*verb, action);
}

}  // namespace espalier
