// SPDX-License-Identifier: Apache-2.0
// What a run writes about itself: who is who, its metrics from the first record to the last, and
// the closing lines.
#include <unistd.h>

#include <algorithm>

#include "commands/trainer.hpp"
#include "core/durable_file.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "monitor/memory.hpp"

namespace espalier {
namespace {

std::string format_list(const std::vector<double>& seconds) {
  std::string text;
  for (const double s : seconds) text += (text.empty() ? "" : ", ") + format_duration(s);
  return text;
}

}  // namespace

// In the folder of a run that goes on from another one's checkpoint: the steps before, of which
// the checkpoint knows the results but not the times.
void Trainer::write_history() {
  const RunHistory& h = checkpoints_->history();
  size_t validation = 0;
  int64_t consumed = 0;
  for (size_t i = 0; i < h.loss.size(); ++i) {
    StepMetrics m;
    m.step = static_cast<int64_t>(i) + 1;
    m.loss = h.loss[i];
    m.gradient_norm = h.gradient_norm[i];
    m.learning_rate = h.learning_rate[i];
    m.loss_scale = h.loss_scale[i];
    m.skipped = h.skipped[i] != 0;
    m.tokens = h.tokens[i];
    m.consumed_tokens = consumed += m.tokens;
    m.token_hash = static_cast<uint64_t>(h.token_hash[i]);
    writer_->write_result(m);
    for (; validation < h.validation_step.size() && h.validation_step[validation] == m.step;
         ++validation)
      writer_->write(ValidationMetrics{m.step, h.validation_loss[validation],
                                       h.validation_tokens[validation]});
  }
}

// Who is who, by what a launcher's last words name: host and process number.
void Trainer::write_ranks() {
  const Grid& grid = launch_.grid;
  std::vector<int64_t> processes(static_cast<size_t>(grid.world().size()));
  const int64_t own = getpid();
  grid.world().all_gather(&own, 1, processes.data());
  if (!leads()) return;
  std::string text = "rank pid host pp dp cp tp\n";
  for (int rank = 0; rank < grid.world().size(); ++rank) {
    const GridShape at = grid.place_of(rank);
    text += fmt::format("{} {} {} {} {} {} {}\n", rank, processes[static_cast<size_t>(rank)],
                        grid.host_of(rank), at.pipeline, at.data, at.context, at.tensor);
  }
  write_text_file(folder_.ranks(), text);
}

void Trainer::begin_metrics(const RunRecord& record) {
  if (continues_) earlier_ = read_run_time(folder_.metrics(), checkpoints_->step());
  write_text_file(folder_.deck(), effective_deck(launch_.deck));
  if (tokenizer_) save_tokenizer(*tokenizer_, folder_.tokenizer());
  writer_ = std::make_unique<MetricsWriter>(
      folder_.metrics(), continues_ ? MetricsMode::append : MetricsMode::truncate);
  if (!continues_) write_history();
  writer_->write(record);
}

// Of the saves that ended meanwhile, on the rank that writes.
void Trainer::tell_reports() {
  for (const CheckpointMetrics& report : checkpoints_->take_reports())
    if (writer_) writer_->write(report);
}

// Collective over the grid.
uint64_t Trainer::parameter_hash() const {
  uint64_t sum = 0;
  for (const auto& [name, part] : sum_slabs(session_->parameters())) sum += part;
  return launch_.grid.world().all_reduce(sum, ReduceOp::sum);
}

// As far as this rank knows.
EndRecord Trainer::own_end(const std::string& reason, int64_t steps) const {
  EndRecord end;
  end.reason = reason;
  end.steps = steps;
  end.loss = last_.loss;
  end.validation_loss = last_validation_;
  end.peak_memory_bytes = peak_resident_bytes();
  end.predicted_memory_bytes = bill_.total(MemorySpace::host);
  end.peak_device_memory_bytes = device_.use().peak;
  end.predicted_device_memory_bytes = bill_.total(MemorySpace::device);
  end.total_seconds = monotonic_seconds() - started_;
  RunTime all = earlier_;
  all.productive_seconds += productive_seconds_;
  all.total_seconds += end.total_seconds;
  end.attempts = all.attempts + 1;
  end.effective_time_ratio = all.effective_ratio();
  const CheckpointTotals& saves = checkpoints_->totals();
  end.checkpoints = saves.count;
  end.checkpoint_stall_seconds = saves.stall_seconds;
  end.checkpoint_seconds = saves.seconds;
  return end;
}

// Collective over the grid.
EndRecord Trainer::write_end(const std::string& reason, int64_t steps) {
  EndRecord end = own_end(reason, steps);
  int64_t peaks[2] = {end.peak_memory_bytes, end.peak_device_memory_bytes};
  launch_.grid.world().all_reduce(peaks, 2, ReduceOp::max);
  end.peak_memory_bytes = peaks[0];
  end.peak_device_memory_bytes = peaks[1];
  if (steps == config_.run.steps) end.parameter_hash = parameter_hash();
  if (writer_) writer_->write(end);
  return end;
}

void Trainer::tell_end(const EndRecord& end) {
  const auto compare = [](const char* name, int64_t measured, int64_t bill) {
    const auto peak = static_cast<double>(measured), predicted = static_cast<double>(bill);
    info("{:<12} {} at most, {} predicted ({:+.1f} %)", name, format_bytes(peak),
         format_bytes(predicted), 100.0 * (peak / predicted - 1.0));
  };
  const bool has_device = end.predicted_device_memory_bytes > 0;
  if (has_device)
    compare("GPU memory", end.peak_device_memory_bytes, end.predicted_device_memory_bytes);
  compare(has_device ? "host memory" : "memory", end.peak_memory_bytes, end.predicted_memory_bytes);
  if (!last_.stage_seconds.empty()) {
    const auto& s = last_.stage_seconds;
    const auto slowest = std::max_element(s.begin(), s.end());
    info("stages       {}; slowest: stage {} of {}, bubble {:.1f} % of the passes (last step)",
         format_list(s), slowest - s.begin(), s.size(), 100.0 * last_.pipeline_bubble);
  }
  if (end.checkpoints > 0)
    info("checkpoints  {} in {}, training stood still for {}", end.checkpoints,
         format_duration(end.checkpoint_seconds), format_duration(end.checkpoint_stall_seconds));
  if (end.checkpoints > 0 || end.attempts > 1)
    info("time         {:.1f} % of all time went into steps that count (attempts: {})",
         100.0 * end.effective_time_ratio, end.attempts);
  info("finished     {} steps in {}; loss {:.4f}{}", end.steps, format_duration(end.total_seconds),
       end.loss, last_validation_ ? fmt::format(", validation {:.4f}", *last_validation_) : "");
  info("run folder   {}; next: espalier report {}", folder_.path, folder_.path);
}

}  // namespace espalier
