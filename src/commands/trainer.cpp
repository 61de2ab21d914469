// SPDX-License-Identifier: Apache-2.0
#include "commands/trainer.hpp"

#include <unistd.h>

#include <algorithm>

#include "checkpoint/model_file.hpp"
#include "commands/run_header.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "monitor/memory.hpp"
#include "optim/learning_rate.hpp"
#include "tensor/gemm.hpp"
#include "tensor/profile.hpp"

namespace espalier {
namespace {

std::string format_list(const std::vector<double>& seconds) {
  std::string text;
  for (const double s : seconds) text += (text.empty() ? "" : ", ") + format_duration(s);
  return text;
}

ProgressStyle progress_style(Progress wanted) {
  if (wanted == Progress::on) return ProgressStyle::bar;
  return wanted == Progress::off ? ProgressStyle::lines : ProgressStyle::automatic;
}

}  // namespace

Trainer::Trainer(const Launch& launch, Existing existing)
    : launch_(launch),
      config_(launch.blueprint.config),
      folder_{launch.blueprint.config.run.directory},
      started_(monotonic_seconds()) {
  // Data first: a missing file must not cost an allocation.
  training_data_ = std::make_unique<BatchSource>(config_, Stream::train);
  if (config_.monitor.validation_interval > 0)
    validation_data_ = std::make_unique<BatchSource>(config_, Stream::validation);
  take_folder(existing);
  own_ = own_micro_batches(launch_.blueprint);
  // Once even where the deck knows the peak: the bill counts the library's memory as it stands.
  const bool is_given = config_.monitor.peak_gflops > 0;
  const double measured = measure_gemm_rate(1024, is_given ? 0.0 : 0.5);
  peak_flops_ = is_given ? config_.monitor.peak_gflops * 1e9 : measured;
  const int64_t runtime =
      resident_bytes() + later_runtime_bytes(launch_.grid.world().size(), launch_.grid.pp().size());
  // That of the rank with most, as the measured peak is.
  const Blueprint heaviest = make_heaviest_blueprint(config_, launch_.grid.world().size());
  bill_ =
      make_memory_bill(heaviest, {launch_.grid.world().all_reduce(runtime, ReduceOp::max),
                                  communication_buffer_bytes(heaviest), OptimizerState::allocated});
  reset_peak();
  if (leads()) {
    write_text_file(folder_.deck(), effective_deck(launch_.deck));
    writer_ = std::make_unique<MetricsWriter>(folder_.metrics(), MetricsMode::truncate);
  }
  write_header();
  session_ = make_training_session(launch_.blueprint, launch_.grid);
  prefetcher_ = std::make_unique<Prefetcher>(*training_data_, own_, 0, config_.data.prefetch_steps);
}

bool Trainer::leads() const {
  return launch_.grid.world().rank() == 0;
}

// Only now, when deck and data are found sound, may an old run be removed. One rank touches the
// folder; its refusal must reach all, so that all leave in good order.
void Trainer::take_folder(Existing existing) {
  std::string failure;
  if (leads()) {
    try {
      open_run_folder(folder_.path, existing);
    } catch (const Error& e) {
      failure = e.what();
    }
  }
  failure = broadcast_text(launch_.grid.world(), failure, 0);
  if (!failure.empty()) throw LaunchError(failure);
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

void Trainer::write_header() {
  write_ranks();
  const RunRecord record = make_run_record(launch_, bill_, peak_flops_);
  print_run_header(record, launch_, bill_, *training_data_);
  if (writer_) writer_->write(record);
}

int Trainer::run() {
  display_ = std::make_unique<ProgressDisplay>(
      config_.run.steps, progress_style(config_.monitor.progress), 1, config_.monitor.log_interval);
  for (int64_t step = 1; step <= config_.run.steps; ++step) {
    try {
      one_step(step);
    } catch (const NumericalError& e) {
      display_->clear();
      write_end("error: " + std::string(e.what()), step - 1);
      throw NumericalError(fmt::format("step {}: {}", step, e.what()));
    }
  }
  display_->finish();
  finish();
  return 0;
}

void Trainer::one_step(int64_t step) {
  const double start = monotonic_seconds();
  Profile::instance().reset();
  const double waited = prefetcher_->wait_seconds();
  const std::vector<MicroBatch>& batches = prefetcher_->next();
  const double data_wait = prefetcher_->wait_seconds() - waited;
  const double rate =
      learning_rate(config_.schedule, config_.optimizer, config_.run.steps, step - 1);
  const StepOutcome outcome = session_->step(batches, rate);
  last_ = measure(step, outcome, rate, monotonic_seconds() - start, data_wait);
  if (writer_) writer_->write(last_);

  std::optional<ValidationMetrics> validation;
  const int64_t interval = config_.monitor.validation_interval;
  if (validation_data_ && (step % interval == 0 || step == config_.run.steps)) {
    validation = validate(step);
    last_validation_ = validation->loss;
    if (writer_) writer_->write(*validation);
  }
  display_->update(last_, validation ? std::optional<double>(validation->loss) : std::nullopt);
}

StepMetrics Trainer::measure(int64_t step, const StepOutcome& outcome, double learning_rate,
                             double seconds, double data_wait) {
  StepMetrics m;
  m.step = step;
  m.loss = outcome.loss;
  m.gradient_norm = outcome.gradient_norm;
  m.learning_rate = learning_rate;
  m.loss_scale = outcome.loss_scale;
  m.skipped = outcome.skipped;
  m.tokens = outcome.valid_tokens;
  consumed_tokens_ += outcome.valid_tokens;
  m.consumed_tokens = consumed_tokens_;
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(launch_.blueprint.tokens_per_step) / seconds;
  m.model_flops_per_second =
      m.tokens_per_second * static_cast<double>(launch_.blueprint.flops_per_token());
  m.mfu =
      m.model_flops_per_second / (peak_flops_ * static_cast<double>(launch_.grid.world().size()));
  m.data_wait_seconds = data_wait;
  m.token_hash = outcome.token_hash;
  Profile::instance().add(Part::data, data_wait);
  for (const Comm* axis : launch_.grid.comms()) {
    const CommStats stats = axis->take_stats();
    if (stats.calls == 0) continue;
    m.communication[axis->axis()] = {stats.bytes, stats.calls, stats.seconds,
                                     stats.exposed_seconds};
    Profile::instance().add(Part::communication, stats.exposed_seconds);
  }
  double known = 0.0;
  for (int p = 0; p < kPartCount; ++p) {
    const auto part = static_cast<Part>(p);
    if (part == Part::other) continue;
    m.seconds_by_part[part_name(part)] = Profile::instance().seconds(part);
    known += Profile::instance().seconds(part);
  }
  m.seconds_by_part[part_name(Part::other)] = std::max(0.0, seconds - known);
  if (launch_.grid.pp().size() > 1) {
    const PipelineTimes times = session_->pipeline_times();
    for (const ChunkSeconds& stage : times.stages) m.stage_seconds.push_back(stage.total());
    m.pipeline_bubble = times.bubble();
    launch_.grid.pp().take_stats();
  }
  const ResidentMemory resident = resident_memory();
  int64_t memory[2] = {resident.total, resident.peak};
  launch_.grid.world().all_reduce(memory, 2, ReduceOp::max);
  launch_.grid.world().take_stats();  // measuring is no part of the next step
  m.memory_bytes = memory[0];
  m.peak_memory_bytes = memory[1];
  return m;
}

std::optional<ValidationMetrics> Trainer::validate(int64_t step) {
  const int64_t count = std::min(config_.monitor.validation_batches, validation_data_->batches());
  std::vector<MicroBatch> batches(static_cast<size_t>(own_.count));
  double sum = 0.0;
  int64_t tokens = 0;
  for (int64_t batch = 0; batch < count; ++batch) {
    for (int64_t i = 0; i < own_.count; ++i)
      validation_data_->fill(batch, own_.index(i), batches[static_cast<size_t>(i)]);
    const LossSum loss = session_->evaluate(batches);
    sum += loss.sum;
    tokens += loss.valid_tokens;
  }
  for (const Comm* axis : launch_.grid.comms()) axis->take_stats();
  return ValidationMetrics{step, sum / static_cast<double>(tokens), tokens};
}

void Trainer::save_model(int64_t step) {
  ModelInfo info;
  info.program_version = build_description();
  info.deck = effective_deck(launch_.deck);
  info.step = step;
  info.consumed_tokens = consumed_tokens_;
  info.seed = config_.run.seed;
  const auto rows = tensor_rows(make_parameter_table(config_));
  const Comm* world = &launch_.grid.world();
  if (session_->master_type() == ElementType::fp64)
    write_model<double>(folder_.model(), world, rows, session_->parameters(), info);
  else
    write_model<float>(folder_.model(), world, rows, session_->parameters(), info);
}

// Collective over the grid.
uint64_t Trainer::parameter_hash() const {
  const TensorSlabs own = session_->parameters();
  const bool is_wide = session_->master_type() == ElementType::fp64;
  return launch_.grid.world().all_reduce(is_wide ? hash_slabs<double>(own) : hash_slabs<float>(own),
                                         ReduceOp::sum);
}

// Collective over the grid.
EndRecord Trainer::write_end(const std::string& reason, int64_t steps) {
  EndRecord end;
  end.reason = reason;
  end.steps = steps;
  end.loss = last_.loss;
  end.validation_loss = last_validation_;
  end.peak_memory_bytes = launch_.grid.world().all_reduce(peak_resident_bytes(), ReduceOp::max);
  end.predicted_memory_bytes = bill_.total();
  end.total_seconds = monotonic_seconds() - started_;
  if (steps == config_.run.steps) end.parameter_hash = parameter_hash();
  if (writer_) writer_->write(end);
  return end;
}

void Trainer::finish() {
  if (config_.checkpoint.save_final) save_model(config_.run.steps);
  const EndRecord end = write_end("finished", config_.run.steps);
  const auto peak = static_cast<double>(end.peak_memory_bytes);
  const auto predicted = static_cast<double>(end.predicted_memory_bytes);
  info("memory       {} at most, {} predicted ({:+.1f} %)", format_bytes(peak),
       format_bytes(predicted), 100.0 * (peak / predicted - 1.0));
  if (!last_.stage_seconds.empty()) {
    const auto& s = last_.stage_seconds;
    const auto slowest = std::max_element(s.begin(), s.end());
    info("stages       {}; slowest: stage {} of {}, bubble {:.1f} % of the passes (last step)",
         format_list(s), slowest - s.begin(), s.size(), 100.0 * last_.pipeline_bubble);
  }
  info("finished     {} steps in {}; loss {:.4f}{}", end.steps, format_duration(end.total_seconds),
       end.loss, last_validation_ ? fmt::format(", validation {:.4f}", *last_validation_) : "");
  info("run folder   {}; next: espalier report {}", folder_.path, folder_.path);
}

}  // namespace espalier
