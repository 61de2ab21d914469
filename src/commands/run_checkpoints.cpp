// SPDX-License-Identifier: Apache-2.0
#include "commands/run_checkpoints.hpp"

#include <algorithm>
#include <cmath>

#include "commands/run_header.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "corpus/feed/mixture.hpp"

namespace espalier {
namespace {

constexpr double kAssumedBytesPerSecond = 1e9;  // until the first save is measured

double estimate_seconds(const Blueprint& blueprint) {
  return static_cast<double>(checkpoint_bytes(blueprint)) / kAssumedBytesPerSecond;
}

}  // namespace

RunCheckpoints::RunCheckpoints(const Launch& launch, const RunFolder& folder,
                               const TrainingSession& session, const BatchSource& data,
                               double started)
    : launch_(launch),
      session_(session),
      data_(data),
      is_on_(saves_while_running(launch.blueprint.config.checkpoint)),
      leads_(launch.grid.world().rank() == 0),
      saver_(folder.checkpoints(), launch.grid.world(), launch.blueprint.config.checkpoint,
             tensor_rows(make_parameter_table(launch.blueprint.config)), session.state_types(),
             mpi_session().allows_threads()),
      policy_(launch.blueprint.config, estimate_seconds(launch.blueprint), monotonic_seconds()),
      signals_(launch.blueprint.config.checkpoint.on_signal),
      limit_(launch.blueprint.config.run, started) {
  if (saves_beside_training(launch.blueprint.config.checkpoint) && !mpi_session().allows_threads())
    throw LaunchError(
        "checkpoint.mode = asynchronous needs an MPI library with MPI_THREAD_MULTIPLE, and this "
        "one gives less; set checkpoint.mode = \"synchronous\"");
}

void RunCheckpoints::resume(const ResumedState& state, bool is_own) {
  history_ = state.history;
  consumed_tokens_ = state.progress.consumed_tokens;
  if (is_own) last_saved_ = state.progress.step;
}

void RunCheckpoints::record(const StepMetrics& m) {
  history_.loss.push_back(m.loss);
  history_.gradient_norm.push_back(m.gradient_norm);
  history_.learning_rate.push_back(m.learning_rate);
  history_.loss_scale.push_back(m.loss_scale);
  history_.skipped.push_back(m.skipped ? 1 : 0);
  history_.tokens.push_back(m.tokens);
  history_.token_hash.push_back(static_cast<int64_t>(m.token_hash));
  consumed_tokens_ = m.consumed_tokens;
}

void RunCheckpoints::record(const ValidationMetrics& m) {
  history_.validation_step.push_back(m.step);
  history_.validation_loss.push_back(m.loss);
  history_.validation_tokens.push_back(m.tokens);
}

StepWishes RunCheckpoints::wishes(int64_t step, double seconds) {
  // A writer that failed ends the run at once; one that is done makes room for the next report.
  if (saver_.is_done()) finish();
  longest_step_ = std::max(longest_step_, seconds);
  const double now = monotonic_seconds();
  StepWishes wishes;
  if (leads_ && is_on_) wishes.save = policy_.is_due(step, now) ? 1 : 0;
  StopReason reason = signals_.requested();
  if (reason == StopReason::none &&
      limit_.must_stop(now, longest_step_, policy_.save_duration_seconds()))
    reason = StopReason::time_limit;
  wishes.stop = static_cast<int64_t>(reason);
  return wishes;
}

void RunCheckpoints::save(SaveMode mode) {
  if (mode == SaveMode::asynchronous && saver_.is_running() && !has_warned_) {
    warn("training waits for the checkpoint of step {}: a save takes longer than the interval",
         last_saved_);
    has_warned_ = true;
  }
  finish();
  SaveRequest request;
  request.slabs = session_.state();
  request.history = history_;
  request.mode = mode;
  TrainingProgress& p = request.progress;
  p.step = step();
  p.consumed_tokens = consumed_tokens_;
  p.next_sequence = data_.position_of(p.step);
  p.seed = launch_.blueprint.config.run.seed;
  session_.add_progress(p);
  CheckpointManifest& m = request.manifest;
  m.step = p.step;
  m.consumed_tokens = p.consumed_tokens;
  m.loss = history_.loss.empty() ? 0.0 : history_.loss.back();
  m.is_healthy =
      std::isfinite(m.loss) && (history_.skipped.empty() || history_.skipped.back() == 0);
  m.grid = grid_extents(launch_.grid.shape());
  m.ranks = launch_.grid.world().size();
  m.hosts = host_names(launch_.grid);
  m.deck = effective_deck(launch_.deck);
  m.mixture = encode_mixture(data_.mixture_at(p.step));
  m.build = build_description();
  policy_.begun(p.step, monotonic_seconds());
  last_saved_ = p.step;
  saver_.save(std::move(request));
  if (mode == SaveMode::synchronous) finish();
}

void RunCheckpoints::finish() {
  if (const std::optional<SaveReport> report = saver_.finish()) note(*report);
}

void RunCheckpoints::note(const SaveReport& report) {
  policy_.saved(report.step, monotonic_seconds(), report.stall_seconds, report.seconds);
  ++totals_.count;
  totals_.stall_seconds += report.stall_seconds;
  totals_.seconds += report.seconds;
  if (!report.warning.empty()) warn("{}", report.warning);
  CheckpointMetrics m;
  m.step = report.step;
  m.seconds = report.seconds;
  m.stall_seconds = report.stall_seconds;
  m.bytes = report.bytes;
  m.mode = report.mode == SaveMode::asynchronous ? "asynchronous" : "synchronous";
  m.path = report.path;
  reports_.push_back(m);
}

std::vector<CheckpointMetrics> RunCheckpoints::take_reports() {
  return std::exchange(reports_, {});
}

}  // namespace espalier
