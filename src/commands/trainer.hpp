// SPDX-License-Identifier: Apache-2.0
// The training run: header, steps, validation, metrics, checkpoints, final model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "commands/run_checkpoints.hpp"
#include "commands/run_device.hpp"
#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "commands/training_session.hpp"
#include "core/folder_lock.hpp"
#include "corpus/prefetcher.hpp"
#include "corpus/tokenizer.hpp"
#include "monitor/metrics.hpp"
#include "monitor/progress.hpp"
#include "monitor/run_time.hpp"

namespace espalier {

/// How a run begins.
struct StartRequest {
  bool overwrite = false;
  std::string resume;  // "auto" or a folder (resume.hpp); empty: from the first step
};

class Trainer {
 public:
  Trainer(const Launch& launch, const StartRequest& request);
  /// Trains to the last step, or until it must stop. Returns the exit code.
  int run();

 private:
  void open_data();
  ResumeChoice take_folder(const StartRequest& request);
  void resume(const ResumeChoice& choice);
  void write_history();
  void write_ranks();
  void begin_metrics(const RunRecord& record);
  StopReason one_step(int64_t step);
  void tell_reports();
  int stop(StopReason reason);
  StepMetrics measure(int64_t step, const StepOutcome& outcome, double learning_rate,
                      double seconds, double data_wait);
  void measure_extremes(StepMetrics& m, int64_t attention_work);
  std::optional<ValidationMetrics> validate(int64_t step);
  void save_model(int64_t step);
  EndRecord own_end(const std::string& reason, int64_t steps) const;
  EndRecord write_end(const std::string& reason, int64_t steps);
  uint64_t parameter_hash() const;
  void finish();
  void tell_end(const EndRecord& end);
  bool leads() const;  // whether this rank writes files

  const Launch& launch_;
  const Config& config_;
  RunFolder folder_;
  std::unique_ptr<FolderLock> lock_;  // on rank 0
  double started_ = 0.0;
  std::unique_ptr<BatchSource> training_data_, validation_data_;
  std::unique_ptr<Tokenizer> tokenizer_;  // of a store; on rank 0
  MicroBatchRange own_;
  int64_t own_work_ = 0;     // attention work of this rank's micro-batches of the step
  double peak_flops_ = 0.0;  // of one rank
  RunDevice device_;
  MemoryBill bill_;
  std::unique_ptr<TrainingSession> session_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<MetricsWriter> writer_;
  std::unique_ptr<ProgressDisplay> display_;
  std::unique_ptr<RunCheckpoints> checkpoints_;
  bool continues_ = false;  // a run of the same folder
  RunTime earlier_;         // of the attempts before this one; on rank 0
  double productive_seconds_ = 0.0;
  StepWishes wishes_;
  StepMetrics last_;
  std::optional<double> last_validation_;
};

}  // namespace espalier
