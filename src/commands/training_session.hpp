// SPDX-License-Identifier: Apache-2.0
// One model in training on this rank: hands values between engine, parallel and optim, which do not
// know each other. Used by train, bench and debug.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "blueprint/blueprint.hpp"
#include "checkpoint/state_file.hpp"
#include "corpus/prefetcher.hpp"
#include "engine/pipeline.hpp"
#include "grid/grid.hpp"

namespace espalier {

/// Of all micro-batches of a step, each once.
struct BatchSums {
  int64_t valid_tokens = 0;
  uint64_t token_hash = 0;
  int64_t padding = 0;         // tokens that only fill up
  int64_t attention_work = 0;  // sum over documents of length^2
};

/// What a step did, the same on every rank.
struct StepOutcome {
  double loss = 0.0;           // nats a valid token
  double gradient_norm = 0.0;  // before clipping
  double loss_scale = 1.0;     // used in this step
  bool skipped = false;        // fp16: gradients overflowed, nothing was updated
  BatchSums batch;
};

struct LossSum {
  double sum = 0.0;
  BatchSums batch;
  double mean() const { return sum / static_cast<double>(batch.valid_tokens); }
};

/// Times of one step's forward and backward passes.
struct PipelineTimes {
  std::vector<ChunkSeconds> stages;  // in the order of the model
  double makespan = 0.0;             // seconds, the longest of the ranks
  int64_t ranks = 1;
  /// Share of the ranks' time in which they did not compute, the mean over ranks.
  double bubble() const;
};

class TrainingSession {
 public:
  virtual ~TrainingSession() = default;

  /// Forward, backward, reduction and update from this rank's micro-batches of the step.
  /// Errors: NumericalError when the loss or the gradient norm is not finite.
  virtual StepOutcome step(const std::vector<MicroBatch>& batches, double learning_rate) = 0;
  /// Gradients alone, of the mean loss over all valid tokens, summed over ranks; no update.
  virtual LossSum gradients(const std::vector<MicroBatch>& batches) = 0;
  /// Loss of this rank's micro-batches of one global batch, summed over ranks.
  virtual LossSum evaluate(const std::vector<MicroBatch>& batches) = 0;

  /// This rank's parts of the master weights, and of the gradients of the last gradients() call;
  /// over all ranks each element is there once, in the types of a state.
  virtual TensorSlabs parameters() const = 0;
  virtual TensorSlabs last_gradients() const = 0;
  /// Of the master weights, and of the gradients and moments.
  virtual StateTypes state_types() const = 0;

  /// What this rank writes of a checkpoint, parameters and moments under their names in the file:
  /// over all ranks every element once, and ranks that hold the same share the work.
  virtual TensorSlabs state() const = 0;
  /// Where everything goes that this rank holds of a checkpoint.
  virtual TensorTargets state_targets() = 0;
  /// The optimizer's and the loss scale's part of the progress.
  virtual void add_progress(TrainingProgress& progress) const = 0;
  /// After the targets were filled: goes on from there. Collective  over the grid
  virtual void resume(const TrainingProgress& progress) = 0;

  /// Of the last step, in this rank's pipeline. Collective  over the pipeline axis
  virtual PipelineTimes pipeline_times() = 0;
};

/// Allocates and initialises everything. Collective over the grid.
std::unique_ptr<TrainingSession> make_training_session(const Blueprint& blueprint,
                                                       const Grid& grid);

/// This rank's share of the global batch's micro-batches.
MicroBatchRange own_micro_batches(const Blueprint& blueprint);

}  // namespace espalier
