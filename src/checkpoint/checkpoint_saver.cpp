// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_saver.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "checkpoint/ranks.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/test_hooks.hpp"
#include "core/units.hpp"
#include "grid/comm.hpp"

namespace espalier {

FileOptions file_options(const CheckpointConfig& config) {
  const auto bytes = [](double mib) {
    return std::max<int64_t>(1, static_cast<int64_t>(mib * 1048576.0));
  };
  FileOptions options;
  options.layout = config.layout;
  options.chunk_bytes = bytes(config.chunk_mib);
  options.alignment = std::max<int64_t>(1, config.alignment);  // 0: anywhere
  options.transfer = config.transfer;
  if (!config.mpi_info.empty()) options.mpi_info = config.mpi_info;
  options.piece_bytes = bytes(config.piece_mib);
  return options;
}

struct CheckpointSaver::Writer {
  CheckpointStore store;
  Comm comm;
  const CheckpointConfig config;
  StateLayout layout;
  bool allows_threads;

  SlabSnapshot snapshot;
  SaveRequest request;  // of the save under way; its slabs are the snapshot's if asynchronous
  SaveReport report;
  double started = 0.0;
  std::thread thread;
  std::atomic<bool> done{false};
  std::exception_ptr failure;
  bool has_report = false;

  Writer(std::string root, const Comm& world, const CheckpointConfig& c)
      : store(std::move(root)), comm(world.duplicate("checkpoint")), config(c) {}

  void write();
  void read_back();
  void remove_old();
  void join();
};

// The whole of one save, on every rank: in the writer's thread or in the caller's.
void CheckpointSaver::Writer::write() {
  const Ranks ranks(&comm);
  const int64_t step = request.progress.step;
  const bool leads = comm.rank() == 0;
  const std::string folder = store.part_of(step);
  try {
    ranks.run_agreed([&] {
      if (leads) store.begin(step);
    });
    request.manifest.files =
        write_state(folder, &comm, layout, request.slabs, request.progress, request.history);
    ranks.run_agreed([&] {
      if (!leads) return;
      // Opened anew: what was just written also has to pass for a state.
      request.manifest.state_digest = StateReader(folder, request.manifest.files, nullptr).digest();
      request.manifest.saved = utc_now();
      request.manifest.save_seconds = monotonic_seconds() - started;
      store.publish(step, request.manifest);
    });
  } catch (const DataError&) {
    // Thrown on every rank alike. What was written is of no use and takes the room of others.
    if (leads) store.abandon(step);
    throw;
  }
  report.path = store.root() + "/" + checkpoint_name(step);
  report.bytes = request.manifest.state_bytes();
  if (config.read_back) read_back();
  if (leads) remove_old();
}

// The new checkpoint is safe; that an old one cannot be removed is no reason to stop.
void CheckpointSaver::Writer::remove_old() {
  try {
    store.prune({config.keep_last, config.keep_every}, PruneMode::remove);
  } catch (const DataError& e) {
    report.warning = fmt::format("old checkpoints stay: {}", e.what());
  }
}

void CheckpointSaver::Writer::read_back() {
  StateReader(report.path, request.manifest.files, &comm).verify();
  const Ranks ranks(&comm);
  ranks.run_agreed([&] {
    if (comm.rank() == 0) store.mark_verified(request.progress.step);
  });
}

void CheckpointSaver::Writer::join() {
  if (thread.joinable()) thread.join();
}

CheckpointSaver::CheckpointSaver(std::string root, const Comm& world,
                                 const CheckpointConfig& config, std::vector<TensorRow> tensors,
                                 const StateTypes& types, bool allows_threads)
    : writer_(std::make_unique<Writer>(std::move(root), world, config)) {
  writer_->layout = {std::move(tensors), types, config.files, file_options(config)};
  writer_->allows_threads = allows_threads;
}

CheckpointSaver::~CheckpointSaver() {
  if (writer_) writer_->join();
}

void CheckpointSaver::save(SaveRequest request) {
  Writer& w = *writer_;
  const double called = monotonic_seconds();
  w.join();
  w.has_report = false;
  if (w.failure) std::rethrow_exception(std::exchange(w.failure, nullptr));
  test_point("save.copy");
  const bool is_asynchronous = request.mode == SaveMode::asynchronous && w.allows_threads;
  w.request = std::move(request);
  w.report = {};
  w.report.step = w.request.progress.step;
  w.report.mode = is_asynchronous ? SaveMode::asynchronous : SaveMode::synchronous;
  w.started = called;
  if (!is_asynchronous) {
    w.write();
    w.report.seconds = monotonic_seconds() - called;
    w.done = w.has_report = true;
    return;
  }
  w.request.slabs = w.snapshot.take(w.request.slabs);
  w.done = false;
  w.has_report = true;
  w.report.stall_seconds = monotonic_seconds() - called;
  w.thread = std::thread([&w] {
    try {
      w.write();
    } catch (...) {
      w.failure = std::current_exception();
    }
    w.report.seconds = monotonic_seconds() - w.started;
    w.done = true;
  });
}

bool CheckpointSaver::is_running() const {
  return writer_->thread.joinable() && !writer_->done;
}

bool CheckpointSaver::is_done() const {
  return writer_->has_report && writer_->done;
}

std::optional<SaveReport> CheckpointSaver::finish() {
  Writer& w = *writer_;
  if (!w.has_report) return std::nullopt;
  const double called = monotonic_seconds();
  w.join();
  w.has_report = false;
  if (w.failure) std::rethrow_exception(std::exchange(w.failure, nullptr));
  w.report.stall_seconds += monotonic_seconds() - called;
  if (w.report.mode == SaveMode::synchronous) w.report.stall_seconds = w.report.seconds;
  return w.report;
}

int64_t CheckpointSaver::snapshot_bytes() const {
  return writer_->snapshot.bytes();
}

}  // namespace espalier
