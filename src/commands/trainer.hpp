// SPDX-License-Identifier: Apache-2.0
// The training run: header, steps, validation, metrics, final model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "commands/run_folder.hpp"
#include "commands/spmd_context.hpp"
#include "commands/training_session.hpp"
#include "corpus/prefetcher.hpp"
#include "monitor/metrics.hpp"
#include "monitor/progress.hpp"

namespace espalier {

class Trainer {
 public:
  Trainer(const Launch& launch, Existing existing);
  /// Trains to the last step. Returns the exit code.
  int run();

 private:
  void take_folder(Existing existing);
  void write_ranks();
  void write_header();
  void one_step(int64_t step);
  StepMetrics measure(int64_t step, const StepOutcome& outcome, double learning_rate,
                      double seconds, double data_wait);
  std::optional<ValidationMetrics> validate(int64_t step);
  void save_model(int64_t step);
  EndRecord write_end(const std::string& reason, int64_t steps);
  uint64_t parameter_hash() const;
  void finish();
  bool leads() const;  // whether this rank writes files

  const Launch& launch_;
  const Config& config_;
  RunFolder folder_;
  double started_ = 0.0;
  std::unique_ptr<BatchSource> training_data_, validation_data_;
  MicroBatchRange own_;
  double peak_flops_ = 0.0;  // of one rank
  MemoryBill bill_;
  std::unique_ptr<TrainingSession> session_;
  std::unique_ptr<Prefetcher> prefetcher_;
  std::unique_ptr<MetricsWriter> writer_;
  std::unique_ptr<ProgressDisplay> display_;
  int64_t consumed_tokens_ = 0;
  StepMetrics last_;
  std::optional<double> last_validation_;
};

}  // namespace espalier
