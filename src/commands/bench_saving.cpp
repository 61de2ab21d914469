// SPDX-License-Identifier: Apache-2.0
// espalier bench saving: what a checkpoint costs a run, saved while training stands still and saved
// beside it.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "checkpoint/checkpoint_saver.hpp"
#include "commands/bench_timing.hpp"
#include "commands/overrides.hpp"
#include "commands/run_header.hpp"
#include "commands/verbs.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "monitor/memory.hpp"

namespace espalier {
namespace {

struct SavingBench {
  BenchRequest steps;
  std::string folder = ".";
  int64_t repeats = 3;
};

double largest(const Comm& world, double value) {
  return world.all_reduce(value, ReduceOp::max);
}

/// One deck in training, and what is measured of it; every number is the slowest rank's.
class Bench {
 public:
  Bench(const SavingBench& request, const Launch& launch)
      : launch_(launch),
        world_(launch.grid.world()),
        root_(request.folder + "/bench-saving"),
        steps_(launch),
        saver_(root_, world_, launch.blueprint.config.checkpoint,
               tensor_rows(make_parameter_table(launch.blueprint.config)),
               steps_.session().state_types(), mpi_session().allows_threads()) {
    if (!mpi_session().allows_threads())
      throw LaunchError(
          "this MPI library offers no MPI_THREAD_MULTIPLE: nothing can be saved "
          "beside training");
  }
  ~Bench() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(root_, ignored);
  }

  void train(int64_t count, bool counted) {
    for (int64_t i = 0; i < count; ++i) {
      const double seconds = steps_.step();
      if (counted) alone_.push_back(seconds);
    }
  }

  void save_standing() {
    const double start = monotonic_seconds();
    saver_.save(request(SaveMode::synchronous));
    standing_.push_back(largest(world_, monotonic_seconds() - start));
    bytes_ = saver_.finish()->bytes;
  }

  // Until the last rank's writer is done, one step after the other.
  void save_beside() {
    const int64_t before = resident_bytes();
    const double start = monotonic_seconds();
    saver_.save(request(SaveMode::asynchronous));
    blocked_.push_back(largest(world_, monotonic_seconds() - start));
    growth_ = std::max(growth_, world_.all_reduce(resident_bytes() - before, ReduceOp::max));
    int64_t count = 0;
    while (world_.all_reduce(int32_t{saver_.is_done()}, ReduceOp::min) == 0) {
      steps_.step();
      ++count;
    }
    const double took = largest(world_, monotonic_seconds() - start);
    lost_.push_back(took - static_cast<double>(count) * median(alone_));
    beside_.push_back(largest(world_, saver_.finish()->seconds));
  }

  void print() const {
    const double standing = median(standing_);
    const auto share = [&](double seconds) { return 100.0 * seconds / standing; };
    info("{} on {} ranks, {} in {}: medians of {}", launch_.blueprint.config.deck_path,
         world_.size(), format_bytes(static_cast<double>(bytes_)), root_, standing_.size());
    info("  {:<44} {:>12}", "a step alone", format_duration(median(alone_)));
    info("  {:<44} {:>12}", "saved while training stands still", format_duration(standing));
    info("  {:<44} {:>12}", "saved beside training, until it is whole",
         format_duration(median(beside_)));
    info("  {:<44} {:>12} {:>8.1f} % of standing still", "  training blocked (the copy)",
         format_duration(median(blocked_)), share(median(blocked_)));
    info("  {:<44} {:>12} {:>8.1f} %", "  time lost in all, slower steps included",
         format_duration(median(lost_)), share(median(lost_)));
    info("  {:<44} {:>12} {:>8} {}, resident +{}", "  copy of the state, a rank",
         format_bytes(static_cast<double>(saver_.snapshot_bytes())), "of",
         format_bytes(static_cast<double>(own_bytes_)), format_bytes(static_cast<double>(growth_)));
  }

 private:
  SaveRequest request(SaveMode mode) {
    SaveRequest r;
    r.slabs = steps_.session().state();
    own_bytes_ = slab_bytes(r.slabs);
    r.mode = mode;
    r.manifest.step = r.progress.step = ++saved_;
    const auto rows = static_cast<size_t>(saved_);
    for (auto* column : {&r.history.loss, &r.history.gradient_norm, &r.history.learning_rate,
                         &r.history.loss_scale})
      column->resize(rows);
    r.history.skipped.resize(rows);
    r.history.tokens.resize(rows);
    r.history.token_hash.resize(rows);
    r.manifest.grid = grid_extents(launch_.grid.shape());
    r.manifest.ranks = world_.size();
    r.manifest.hosts = host_names(launch_.grid);
    r.manifest.deck = effective_deck(launch_.deck);
    r.manifest.build = build_description();
    return r;
  }

  const Launch& launch_;
  const Comm& world_;
  const std::string root_;
  StepBench steps_;
  CheckpointSaver saver_;
  int64_t saved_ = 0, bytes_ = 0, own_bytes_ = 0, growth_ = 0;
  std::vector<double> alone_, standing_, beside_, blocked_, lost_;
};

int bench_saving(const SavingBench& request) {
  const Launch started = launch(request.steps.deck, request.steps.overrides);
  Bench bench(request, started);
  bench.train(request.steps.warmup, false);
  for (int64_t i = 0; i < request.repeats; ++i) {
    bench.train(request.steps.steps, true);
    bench.save_standing();
    bench.save_beside();
  }
  bench.print();
  return 0;
}

}  // namespace

void add_bench_saving(CLI::App& bench, Action& action) {
  const auto r = std::make_shared<SavingBench>();
  CLI::App* verb = bench.add_subcommand(
      "saving", "A deck's checkpoints, saved while training stands still and beside it");
  verb->add_option("DECK", r->steps.deck, "The deck (TOML)")->required();
  add_overrides(*verb, r->steps.overrides);
  verb->add_option("--folder", r->folder, "Where to write (default: here)")
      ->check(CLI::ExistingDirectory);
  verb->add_option("--steps", r->steps.steps, "Steps alone in each round (default 5)")
      ->check(CLI::PositiveNumber);
  verb->add_option("--warmup", r->steps.warmup, "Steps before them (default 1)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--repeats", r->repeats, "Rounds (default 3)")->check(CLI::Range(1, 1000));
  verb->callback([r, &action] { action = [r] { return bench_saving(*r); }; });
}

}  // namespace espalier
