// SPDX-License-Identifier: Apache-2.0
#include "commands/trainer.hpp"

#include <algorithm>

#include "checkpoint/model_file.hpp"
#include "commands/bench_timing.hpp"
#include "commands/run_header.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/test_hooks.hpp"
#include "core/units.hpp"
#include "corpus/feed/mixture.hpp"
#include "corpus/tokenizer/tokenizer_files.hpp"
#include "grid/agreement.hpp"
#include "monitor/memory.hpp"
#include "optim/learning_rate.hpp"
#include "tensor/gemm.hpp"
#include "tensor/profile.hpp"

namespace espalier {
namespace {

ProgressStyle progress_style(Progress wanted) {
  if (wanted == Progress::on) return ProgressStyle::bar;
  return wanted == Progress::off ? ProgressStyle::lines : ProgressStyle::automatic;
}

}  // namespace

Trainer::Trainer(const Launch& launch, const StartRequest& request)
    : launch_(launch),
      config_(launch.blueprint.config),
      folder_{launch.blueprint.config.run.directory},
      started_(monotonic_seconds()),
      device_(launch) {
  // Data first: a missing file must not cost an allocation.
  open_data();
  const ResumeChoice choice = take_folder(request);
  own_ = own_micro_batches(launch_.blueprint);
  // Once even where the deck knows the peak: the bill counts the library's memory as it stands.
  const bool is_given = config_.monitor.peak_gflops > 0;
  const double measured =
      measure_gemm_rate(config_.numerics.compute_type, gemm_extent(1024), is_given ? 0.0 : 0.5);
  peak_flops_ = is_given ? config_.monitor.peak_gflops * 1e9 : measured;
  device_.settle();
  const int64_t runtime =
      resident_bytes() + later_runtime_bytes(launch_.grid.world().size(), launch_.grid.pp().size());
  // That of the rank with most, as the measured peak is.
  const Blueprint heaviest = make_heaviest_blueprint(config_, launch_.grid.world().size());
  const MemoryAssumptions host{launch_.grid.world().all_reduce(runtime, ReduceOp::max)};
  bill_ = make_memory_bill(heaviest, device_.assume(host));
  device_.require_room(bill_);
  // Only now, when deck, data and memory are found sound, may an old run be removed.
  run_agreed(launch_.grid.world(), [&] {
    if (leads() && request.overwrite) take_run_folder(folder_, Existing::overwrite);
  });
  reset_peak();
  // A refused checkpoint must leave a new folder as it was.
  if (choice.points.empty() || continues_) write_ranks();
  RunRecord record = make_run_record(launch_, device_, bill_, peak_flops_);
  print_run_header(record, launch_, device_, bill_, *training_data_);
  session_ = make_training_session(launch_.blueprint, launch_.grid);
  checkpoints_ =
      std::make_unique<RunCheckpoints>(launch_, folder_, *session_, *training_data_, started_);
  if (!choice.points.empty()) resume(choice);
  if (!choice.points.empty() && !continues_) write_ranks();
  record.first_step = checkpoints_->step() + 1;
  if (leads()) begin_metrics(record);
  const int64_t first = is_broken_for_test("resume_position") ? 0 : checkpoints_->step();
  prefetcher_ = std::make_unique<Prefetcher>(*training_data_, own_, first,
                                             config_.data.prefetch_steps, config_.data.workers);
}

// A plan of packing that is missing is made once, by one rank, and found by the others.
void Trainer::open_data() {
  const auto open = [&] {
    training_data_ = std::make_unique<BatchSource>(config_, Stream::train);
    if (config_.monitor.validation_interval > 0)
      validation_data_ = std::make_unique<BatchSource>(config_, Stream::validation);
    const std::string& folder = training_data_->tokenizer_folder();
    if (!folder.empty() && leads())
      tokenizer_ = open_tokenizer(folder, training_data_->tokenizer());
  };
  const Comm& world = launch_.grid.world();
  const bool plans = config_.data.packing == Packing::best_fit;
  run_agreed(world, [&] {
    if (leads() || !plans) open();
  });
  run_agreed(world, [&] {
    if (!leads() && plans) open();
  });
}

bool Trainer::leads() const {
  return launch_.grid.world().rank() == 0;
}

// One rank touches the folder; its refusal must reach all, so that all leave in good order.
ResumeChoice Trainer::take_folder(const StartRequest& request) {
  const Comm& world = launch_.grid.world();
  run_agreed(world, [&] {
    if (!leads()) return;
    make_run_folder(folder_);
    lock_ = lock_run_folder(folder_);
  });
  ResumeChoice choice;
  if (!request.resume.empty()) choice = find_resume_points(launch_, request.resume, folder_);
  continues_ = !request.resume.empty() && choice.is_own;
  if (continues_ && request.overwrite)
    throw LaunchError(
        "--overwrite and --resume contradict each other: one removes what the other goes on from; "
        "give one of them");
  // To begin again would replace what is finished, and nothing is there to go on from.
  if (continues_ && choice.points.empty())
    run_agreed(world, [&] {
      if (leads() && is_finished_run(folder_))
        throw LaunchError(
            fmt::format("the run in {} is finished and has no checkpoint to go on from (a run "
                        "without checkpoint.interval makes none); give --overwrite to begin again",
                        folder_.path));
    });
  run_agreed(world, [&] {
    if (leads() && !request.overwrite)
      take_run_folder(folder_, continues_ ? Existing::resume : Existing::refuse);
  });
  return choice;
}

void Trainer::resume(const ResumeChoice& choice) {
  const ResumedState state = resume_session(launch_, choice, *session_);
  const std::string mixture =
      is_broken_for_test("resume_mixture") ? std::string() : state.point.manifest.mixture;
  training_data_->continue_from(state.progress.step, state.progress.next_sequence,
                                decode_mixture(mixture, state.point.folder + "/" + kManifestFile));
  checkpoints_->resume(state, choice.is_own);
  if (continues_)
    run_agreed(launch_.grid.world(), [&] {
      if (!leads()) return;
      CheckpointStore store(folder_.checkpoints());
      store.mark_verified(state.progress.step);
      for (const std::string& name : store.set_aside_after(state.progress.step))
        warn("a later checkpoint stays as {}/{}: its steps are done again", folder_.checkpoints(),
             name);
    });
  if (!state.history.validation_loss.empty())
    last_validation_ = state.history.validation_loss.back();
  if (state.progress.step > 0) last_.loss = state.history.loss.back();
}

int Trainer::run() {
  if (checkpoints_->step() == config_.run.steps)
    info("step {} is the last one already: nothing is left to train; raise run.steps to go on",
         config_.run.steps);
  display_ =
      std::make_unique<ProgressDisplay>(config_.run.steps, progress_style(config_.monitor.progress),
                                        checkpoints_->step() + 1, config_.monitor.log_interval);
  for (int64_t step = checkpoints_->step() + 1; step <= config_.run.steps; ++step) {
    try {
      const StopReason reason = one_step(step);
      if (reason != StopReason::none && step < config_.run.steps) return stop(reason);
    } catch (const NumericalError& e) {
      display_->clear();
      write_end("error: " + std::string(e.what()), step - 1);
      throw NumericalError(fmt::format("step {}: {}", step, e.what()));
    } catch (const Error& e) {
      // Others may know nothing of it, so no word with them.
      display_->clear();
      if (writer_) writer_->write(own_end("error: " + std::string(e.what()), step - 1));
      throw;
    }
  }
  display_->finish();
  finish();
  return 0;
}

StopReason Trainer::one_step(int64_t step) {
  const double start = monotonic_seconds();
  Profile::instance().reset();
  const double waited = prefetcher_->wait_seconds();
  const std::vector<MicroBatch>& batches = prefetcher_->next();
  const double data_wait = prefetcher_->wait_seconds() - waited;
  own_work_ = 0;
  for (const MicroBatch& batch : batches) own_work_ += batch.attention_work;
  const double rate =
      learning_rate(config_.schedule, config_.optimizer, config_.run.steps, step - 1);
  const StepOutcome outcome = session_->step(batches, rate);
  last_ = measure(step, outcome, rate, monotonic_seconds() - start, data_wait);
  productive_seconds_ += last_.step_seconds;
  checkpoints_->record(last_);
  if (writer_) writer_->write(last_);
  const std::optional<HealthSummary> health = device_.watch(step);
  if (writer_ && health) writer_->write(*health);

  std::optional<ValidationMetrics> validation;
  const int64_t interval = config_.monitor.validation_interval;
  if (validation_data_ && (step % interval == 0 || step == config_.run.steps)) {
    validation = validate(step);
    last_validation_ = validation->loss;
    checkpoints_->record(*validation);
    if (writer_) writer_->write(*validation);
  }
  display_->update(last_, validation ? std::optional<double>(validation->loss) : std::nullopt);
  if (wishes_.save != 0 && wishes_.stop == 0 && step < config_.run.steps)
    checkpoints_->save(config_.checkpoint.mode);
  tell_reports();
  return static_cast<StopReason>(wishes_.stop);
}

// Saves, and asks for another job that goes on.
int Trainer::stop(StopReason reason) {
  display_->clear();
  checkpoints_->save(SaveMode::synchronous);
  tell_reports();
  const std::string name = stop_reason_name(reason);
  const EndRecord end = write_end(name, checkpoints_->step());
  info(
      "stopped      {}: step {} of {} is saved; go on with --resume (exit code {} asks for a "
      "requeue)",
      name, end.steps, config_.run.steps, static_cast<int>(ExitCode::requeue));
  return static_cast<int>(ExitCode::requeue);
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
  m.tokens = outcome.batch.valid_tokens;
  m.consumed_tokens = checkpoints_->consumed_tokens() + outcome.batch.valid_tokens;
  m.step_seconds = seconds;
  m.tokens_per_second = static_cast<double>(launch_.blueprint.tokens_per_step) / seconds;
  m.model_flops_per_second =
      m.tokens_per_second * static_cast<double>(launch_.blueprint.flops_per_token());
  m.mfu =
      m.model_flops_per_second / (peak_flops_ * static_cast<double>(launch_.grid.world().size()));
  m.data_wait_seconds = data_wait;
  m.token_hash = outcome.batch.token_hash;
  m.padding = outcome.batch.padding;
  m.position = training_data_->position_of(step - 1);
  m.skipped_positions = training_data_->skipped_in(step - 1);
  m.elapsed_seconds = monotonic_seconds() - started_;
  Profile::instance().collect();
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
  measure_extremes(m, outcome.batch.attention_work);
  return m;
}

// What the rank with most has; with it travels what the ranks wish.
void Trainer::measure_extremes(StepMetrics& m, int64_t attention_work) {
  const ResidentMemory resident = resident_memory();
  const StepWishes own = checkpoints_->wishes(m.step, m.step_seconds);
  const DeviceUse use = device_.use();
  int64_t largest[7] = {resident.total, resident.peak, own.save, own.stop,
                        own_work_,      use.now,       use.peak};
  launch_.grid.world().all_reduce(largest, 7, ReduceOp::max);
  launch_.grid.world().take_stats();  // measuring is no part of the next step
  m.memory_bytes = largest[0];
  m.peak_memory_bytes = largest[1];
  m.device_memory_bytes = largest[5];
  m.peak_device_memory_bytes = largest[6];
  wishes_ = {largest[2], largest[3]};
  m.attention_imbalance = static_cast<double>(largest[4]) *
                          static_cast<double>(config_.grid.data_parallel) /
                          static_cast<double>(std::max<int64_t>(1, attention_work));
}

std::optional<ValidationMetrics> Trainer::validate(int64_t step) {
  const int64_t count = std::min(config_.monitor.validation_batches, validation_data_->batches());
  std::vector<MicroBatch> batches(static_cast<size_t>(own_.count));
  double sum = 0.0;
  int64_t tokens = 0;
  Profile::instance().set_on(false);  // no part of the next step
  for (int64_t batch = 0; batch < count; ++batch) {
    for (int64_t i = 0; i < own_.count; ++i)
      validation_data_->fill(batch, own_.index(i), batches[static_cast<size_t>(i)]);
    const LossSum loss = session_->evaluate(batches);
    sum += loss.sum;
    tokens += loss.batch.valid_tokens;
  }
  Profile::instance().set_on(true);
  for (const Comm* axis : launch_.grid.comms()) axis->take_stats();
  return ValidationMetrics{step, sum / static_cast<double>(tokens), tokens};
}

void Trainer::save_model(int64_t step) {
  ModelInfo info;
  info.program_version = build_description();
  info.deck = effective_deck(launch_.deck);
  info.step = step;
  info.consumed_tokens = checkpoints_->consumed_tokens();
  info.seed = config_.run.seed;
  const auto rows = tensor_rows(make_parameter_table(config_));
  const Comm* world = &launch_.grid.world();
  write_model(folder_.model(), world, rows, session_->state_types().parameters,
              session_->parameters(), info);
}

void Trainer::finish() {
  const int64_t steps = checkpoints_->step();
  if (checkpoints_->is_on() && checkpoints_->last_saved() < steps)
    checkpoints_->save(SaveMode::synchronous);
  checkpoints_->finish();  // HDF5 is not for two threads
  tell_reports();
  if (config_.checkpoint.save_final) save_model(steps);
  tell_end(write_end("finished", steps));
}

}  // namespace espalier
