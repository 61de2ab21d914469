// SPDX-License-Identifier: Apache-2.0
// The state of a training run in one file or a few (state.h5): parameters, moments, progress and
// the history of the losses, one logical tensor a dataset, whatever grid wrote it. Format:
// docs/checkpoint-format.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/state_slabs.hpp"
#include "checkpoint/tensor_file.hpp"

namespace espalier {

constexpr const char* kParameterGroup = "parameters";
constexpr const char* kFirstMomentGroup = "optimizer/first_moment";
constexpr const char* kSecondMomentGroup = "optimizer/second_moment";

/// Where a run stands, beside its tensors and its losses.
struct TrainingProgress {
  int64_t step = 0;             // done
  int64_t consumed_tokens = 0;  // valid ones
  int64_t next_sequence = 0;    // of the training stream: how many were used
  int64_t seed = 0;
  int64_t optimizer_updates = 0;  // steps that were not skipped
  double loss_scale = 1.0;
  int64_t loss_scale_good_steps = 0;                                // since its last change
  int64_t loss_scale_skipped_in_a_row = 0, loss_scale_skipped = 0;  // steps
};

/// What each step gave, from step 1 on; the same on every rank.
struct RunHistory {
  std::vector<double> loss, gradient_norm, learning_rate, loss_scale;
  std::vector<int32_t> skipped;             // 0 or 1
  std::vector<int64_t> tokens, token_hash;  // valid tokens; the hash's 64 bits
  std::vector<int64_t> validation_step;     // in ascending order
  std::vector<double> validation_loss;
  std::vector<int64_t> validation_tokens;
};

/// Which tensors a state has, and how they are stored.
struct StateLayout {
  std::vector<TensorRow> tensors;  // parameters, the whole model in global shapes
  StateTypes types = {};
  int64_t files = 1;
  FileOptions options = {};
};

/// "state.h5", or "state.2of4.h5".
std::string state_file_name(int64_t index, int64_t files);

/// Writes the state files into `folder`. `slabs` are this rank's, under full dataset names: over
/// all ranks every element of every tensor once.
///
/// Collective  over `ranks` (null: this process alone)
/// Returns     the files in order, with their sizes
/// Errors      DataError, the same on all ranks
std::vector<StateFileEntry> write_state(const std::string& folder, const Comm* ranks,
                                        const StateLayout& layout, const TensorSlabs& slabs,
                                        const TrainingProgress& progress,
                                        const RunHistory& history);

/// The state files of one checkpoint, checked to be one whole: nothing in them is trusted.
///
/// Collective  over `ranks`
/// Errors      DataError: every tensor that is missing, extra, or of another type or shape, by name
class StateReader {
 public:
  /// `files` as the manifest names them.
  StateReader(const std::string& folder, const std::vector<StateFileEntry>& files,
              const Comm* ranks);

  const TrainingProgress& progress() const { return progress_; }
  const RunHistory& history() const { return history_; }
  const StateTypes& types() const { return types_; }
  /// Throws a DeckError unless the files hold exactly these parameters with their moments, the
  /// moments as `moments`; parameters beside fp32 moments may be fp32 or bf16.
  void require(const std::vector<TensorRow>& tensors, StoredType moments) const;
  /// Reads this rank's parts, each from where it stands, no more. Parameters in fp32 are rounded to
  /// nearest for a target in bf16, and bf16 is widened for one in fp32.
  void read(const TensorTargets& targets);
  /// Compares what is in memory with the checksums of the files: `own` are slabs of all tensors
  /// that hold every element once over all ranks. Names every tensor that is damaged.
  void require_intact(const TensorSlabs& own, const Comm& ranks) const;
  /// Reads all tensors, each rank a share of the rows and a piece at a time, and compares the
  /// checksums. Returns a line for every tensor that is damaged, with its file.
  std::vector<std::string> damaged_tensors();
  /// The same; throws them all.
  void verify();
  /// 16 hexadecimal digits: an XXH3_64 of the progress and of all names and checksums. Equal states
  /// have equal digests, whatever grid wrote them and in how many files.
  std::string digest() const;
  /// Throws unless the files are of this step and have this digest, as the manifest says.
  void require_those_of(int64_t step, const std::string& digest) const;

 private:
  void read_progress();
  void read_history();
  void check_datasets();
  void check_moments() const;

  std::string folder_;
  const Comm* ranks_;
  std::vector<std::unique_ptr<TensorFileReader>> files_;
  TrainingProgress progress_;
  RunHistory history_;
  StateTypes types_ = {StoredType::other, StoredType::other};
};

}  // namespace espalier
