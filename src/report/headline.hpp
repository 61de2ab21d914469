// SPDX-License-Identifier: Apache-2.0
// The few numbers that a run is judged by.
#pragma once

#include <optional>
#include <string>

#include "report/run_data.hpp"

namespace espalier {

/// Every number is absent where the run did not measure it.
struct Headline {
  int64_t steps = 0;                             ///< the last step recorded
  int64_t total_steps = 0;                       ///< of the deck; 0 if not recorded
  std::string state;                             ///< reason of the end record, or "no end recorded"
  std::optional<double> training_loss;           ///< of the last step
  std::optional<double> training_loss_smoothed;  ///< smoothed_loss() at the last step
  std::optional<double> validation_loss;         ///< the last one
  std::optional<double> best_validation_loss;
  int64_t best_validation_step = 0;
  std::optional<double> unigram_nats, bigram_nats;
  std::optional<double> tokens_per_second;  ///< median; the first step of each run does not count
  std::optional<double> mfu;                ///< median, likewise
  std::optional<int64_t> peak_memory_bytes;
  std::optional<int64_t> predicted_memory_bytes;
  std::optional<double> effective_time_ratio;  ///< of the end record
  SavedCheckpoints checkpoints;
  int64_t loss_not_finite = 0;  ///< steps whose loss is nan or infinite
  int64_t skipped_steps = 0;    ///< fp16 overflow
};

Headline headline(const RunData& data);

/// The training loss as the report smooths it: over 1 % of the steps, at least 5, to both sides.
Series smoothed_loss(const RunData& data);

std::string headline_text(const Headline& h);  ///< a few lines for a terminal
std::string headline_json(const Headline& h);  ///< one object, absent numbers null

}  // namespace espalier
