// SPDX-License-Identifier: Apache-2.0
// The checkpoints of a run under way: when one is due, what goes into it, and when the run must
// stop because somebody or the clock says so.
#pragma once

#include <memory>
#include <vector>

#include "checkpoint/checkpoint_saver.hpp"
#include "commands/resume.hpp"
#include "commands/run_folder.hpp"
#include "commands/save_policy.hpp"
#include "commands/stop_request.hpp"
#include "commands/training_session.hpp"
#include "corpus/batch_source.hpp"
#include "monitor/metrics.hpp"

namespace espalier {

/// What a rank wishes after a step. The largest over ranks is what happens: all_reduce(max).
struct StepWishes {
  int64_t save = 0;  // rank 0's clock decides
  int64_t stop = 0;  // a StopReason
};

/// Totals of a run, on the rank that asks.
struct CheckpointTotals {
  int64_t count = 0;
  double stall_seconds = 0.0, seconds = 0.0;
};

class RunCheckpoints {
 public:
  /// All outlive it. Collective  over all ranks
  RunCheckpoints(const Launch& launch, const RunFolder& folder, const TrainingSession& session,
                 const BatchSource& data, double started);

  /// Goes on where a checkpoint left off; is_own: it stands in this run's folder.
  void resume(const ResumedState& state, bool is_own);

  /// Steps done so far, and what they gave.
  int64_t step() const { return static_cast<int64_t>(history_.loss.size()); }
  int64_t consumed_tokens() const { return consumed_tokens_; }
  const RunHistory& history() const { return history_; }

  void record(const StepMetrics& m);
  void record(const ValidationMetrics& m);

  /// After step `step` took `seconds`. Not collective.
  StepWishes wishes(int64_t step, double seconds);

  /// Saves the state after the last step; waits for an earlier save first.
  /// Errors  DataError of the writer
  void save(SaveMode mode);
  /// The saves that ended since the last call.
  std::vector<CheckpointMetrics> take_reports();
  /// Waits for the save under way.
  void finish();

  /// Whether this run saves while it goes on.
  bool is_on() const { return is_on_; }
  /// The step of the newest save that was begun; -1: none.
  int64_t last_saved() const { return last_saved_; }
  const CheckpointTotals& totals() const { return totals_; }

 private:
  void note(const SaveReport& report);

  const Launch& launch_;
  const TrainingSession& session_;
  const BatchSource& data_;
  bool is_on_ = false, leads_ = false, has_warned_ = false;
  CheckpointSaver saver_;
  SavePolicy policy_;
  SignalWatch signals_;
  TimeLimit limit_;
  RunHistory history_;
  int64_t consumed_tokens_ = 0;
  int64_t last_saved_ = -1;
  double longest_step_ = 0.0;
  CheckpointTotals totals_;
  std::vector<CheckpointMetrics> reports_;
};

}  // namespace espalier
