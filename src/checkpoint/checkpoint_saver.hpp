// SPDX-License-Identifier: Apache-2.0
// Saves checkpoints while training goes on: copies the state, and a thread writes it together with
// the threads of the other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_store.hpp"
#include "checkpoint/state_file.hpp"
#include "deck/config.hpp"

namespace espalier {

/// What one checkpoint holds.
struct SaveRequest {
  TensorSlabs slabs;  // this rank's share of the state, where training has it
  TrainingProgress progress;
  RunHistory history;
  CheckpointManifest manifest;  // files, digest, time, duration are filled in
  SaveMode mode = SaveMode::synchronous;
};

/// What one save was.
struct SaveReport {
  int64_t step = 0;
  int64_t bytes = 0;           // of the state files
  double stall_seconds = 0.0;  // in which training stood still on this rank
  double seconds = 0.0;        // from the call to the published checkpoint
  SaveMode mode = SaveMode::synchronous;
  std::string path;
  std::string warning;  // what went wrong after the checkpoint was whole; rank 0
};

/// Collective  every method over `world`
/// Threads     one caller. HDF5 is in the writer's hands while is_running(): nobody else uses it
class CheckpointSaver {
 public:
  /// `root`: RUN/checkpoints. `world` outlives the saver, which takes a duplicate for its thread.
  /// The layout's files and options follow from the deck. Without allows_threads every save is
  /// synchronous.
  CheckpointSaver(std::string root, const Comm& world, const CheckpointConfig& config,
                  std::vector<TensorRow> tensors, const StateTypes& types, bool allows_threads);
  /// Waits for a save that is under way.
  ~CheckpointSaver();

  /// Synchronous: returns when the checkpoint is whole and durable. Asynchronous: returns when the
  /// state is copied. Waits first for a save that is under way; finish() must have been called for
  /// it when its report is wanted.
  /// Errors  DataError of this save, or of the one before; what was on disk stays
  void save(SaveRequest request);

  bool is_running() const;
  /// Whether this rank's writer is done, well or not: finish() would not wait. Not collective.
  bool is_done() const;
  /// Waits for the save under way or just done, and tells about it; nothing when there is none.
  /// The wait counts as a stall. Errors  DataError of the save, the same on every rank
  std::optional<SaveReport> finish();

  /// Of the copies of the state on this rank.
  int64_t snapshot_bytes() const;

 private:
  struct Writer;
  std::unique_ptr<Writer> writer_;
};

/// How a deck stores its tensors.
FileOptions file_options(const CheckpointConfig& config);

}  // namespace espalier
