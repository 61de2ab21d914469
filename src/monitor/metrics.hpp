// SPDX-License-Identifier: Apache-2.0
// The numbers of a run and the file that keeps them: metrics.jsonl, one JSON object a line.
// docs/metrics.md defines each of them; the report reads the file.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "monitor/health_summary.hpp"

namespace espalier {

using NamedSizes = std::vector<std::pair<std::string, int64_t>>;

/// What one axis of the grid communicated in one step, on the rank that writes.
struct CommunicationMetrics {
  int64_t bytes = 0;  ///< payload that this rank handed to the axis's operations
  int64_t calls = 0;
  double seconds = 0.0;          ///< from the start of each operation to its end, summed
  double exposed_seconds = 0.0;  ///< of these, the wait after compute ran out
};

/// One optimizer step. Global unless said otherwise; times are those of the rank that writes.
struct StepMetrics {
  int64_t step = 0;            ///< 1 for the first step of a run; goes on after a resume
  double loss = 0.0;           ///< nats a valid token: sum over the global batch / valid tokens
  double gradient_norm = 0.0;  ///< 2-norm over all parameters, unscaled, before clipping
  double learning_rate = 0.0;
  double loss_scale = 1.0;         ///< fp16 only; 1 otherwise
  bool skipped = false;            ///< fp16: the gradient overflowed and nothing was updated
  int64_t tokens = 0;              ///< valid tokens (with a target) of this step
  int64_t consumed_tokens = 0;     ///< the same, summed since step 1
  double step_seconds = 0.0;       ///< wall time, validation and checkpoints not included
  double elapsed_seconds = 0.0;    ///< from the start of the program to the end of the step
  double tokens_per_second = 0.0;  ///< all positions of the batch, seq_length each
  double model_flops_per_second = 0.0;
  double mfu = 0.0;                ///< a fraction, 1 = peak; 0 if the peak is unknown
  double data_wait_seconds = 0.0;  ///< wait for the prefetch thread
  int64_t position = 0;            ///< of the stream, with which the step began
  std::vector<std::array<int64_t, 2>> skipped_positions;  ///< [from, to) that it jumped over
  int64_t padding = 0;                                    ///< tokens that only fill up sequences
  double attention_imbalance = 0.0;  ///< attention work of the rank with most over the mean
  uint64_t token_hash = 0;           ///< of the token ids of the step; written as 16 hex digits
  std::map<std::string, CommunicationMetrics> communication;  ///< by axis
  std::map<std::string, double> seconds_by_part;  ///< by blueprint's part_name(): matmul, ...
  /// Seconds that each stage of this rank's pipeline computed, in the order of the model; empty
  /// without pipeline parallelism.
  std::vector<double> stage_seconds;
  double pipeline_bubble = 0.0;   ///< share of the passes' time in which the ranks waited, mean
  int64_t memory_bytes = 0;       ///< resident now, the rank with most
  int64_t peak_memory_bytes = 0;  ///< resident at most so far, the rank with most
  /// Memory of the device that the program holds now and held at most so far, the rank with most;
  /// 0: computes on the host, left out.
  int64_t device_memory_bytes = 0, peak_device_memory_bytes = 0;
};

struct ValidationMetrics {
  int64_t step = 0;    ///< steps done before it
  double loss = 0.0;   ///< nats a valid token
  int64_t tokens = 0;  ///< valid tokens
};

/// One checkpoint that became whole.
struct CheckpointMetrics {
  int64_t step = 0;            ///< steps done before it
  double seconds = 0.0;        ///< from its beginning until it was whole
  double stall_seconds = 0.0;  ///< of these, the time in which training stood still
  int64_t bytes = 0;           ///< of its state files
  std::string mode;            ///< asynchronous, synchronous
  std::string path;
};

/// What is printed when a run starts. A resumed run adds one more to the same file.
struct RunRecord {
  std::string started;  ///< UTC, ISO 8601; filled in by the writer if empty
  std::string deck_path;
  std::string build;  ///< version, compiler, flags
  int64_t ranks = 1;
  NamedSizes grid;  ///< axis and extent, in grid order
  std::vector<std::string> hosts;
  std::string compute_type, master_type;
  std::string gemm_library;
  std::string gemm_kernel;
  double gemm_gflops = 0.0;  ///< measured at start, one rank; 0: not measured
  double peak_gflops = 0.0;  ///< of one rank, the denominator of MFU
  int64_t parameters = 0;
  double flops_per_token = 0.0;  ///< model flop a token, forward and backward
  NamedSizes predicted_memory;   ///< item and bytes, of the rank with most; on the host
  /// The same on its device; empty where a run computes on the host, and what follows too.
  NamedSizes predicted_device_memory;
  std::string device;     ///< name and memory
  std::string transport;  ///< how messages leave its memory
  std::string kernels;    ///< tuned, portable
  int64_t tokens_per_step = 0;
  double predicted_step_seconds = 0.0;                    ///< 0: not predicted
  std::vector<std::pair<int64_t, int64_t>> stage_layers;  ///< [first, last) of each stage
  int64_t first_step = 1;  ///< step that this run does first; earlier records from here on are void
  int64_t total_steps = 0;
};

struct EndRecord {
  std::string reason;                     ///< finished, interrupted, time limit, error: ...
  int64_t steps = 0;                      ///< the last step done
  double loss = 0.0;                      ///< training loss of that step
  std::optional<double> validation_loss;  ///< the last one
  int64_t peak_memory_bytes = 0;          ///< measured, the rank with most
  int64_t predicted_memory_bytes = 0;
  /// The same of device memory; 0: computes on the host, left out.
  int64_t peak_device_memory_bytes = 0, predicted_device_memory_bytes = 0;
  double total_seconds = 0.0;  ///< from the start of the program
  int64_t attempts = 1;        ///< times that this run was started, this one included
  /// Seconds of the steps that count over all seconds of all attempts (monitor/run_time).
  double effective_time_ratio = 0.0;
  int64_t checkpoints = 0;                ///< made by this attempt
  double checkpoint_seconds = 0.0;        ///< that these took together
  double checkpoint_stall_seconds = 0.0;  ///< of these, the time in which training stood still
  /// of the name, place and bits of all parameters, the same on every layout; written as 16 hex
  /// digits, null where the run did not reach its last step
  std::optional<uint64_t> parameter_hash;
};

/// The lines as text, without the line feed. Numbers that are not finite become the strings "nan",
/// "inf" and "-inf"; bytes that are not UTF-8 become U+FFFD: every line is valid JSON.
std::string metrics_line(const StepMetrics& m);
/// Of a step that another run did: what it gave, without times and sizes.
std::string result_line(const StepMetrics& m);
std::string metrics_line(const ValidationMetrics& m);
std::string metrics_line(const CheckpointMetrics& m);
std::string metrics_line(const RunRecord& r);
std::string metrics_line(const EndRecord& e);

enum class MetricsMode { truncate, append };

/// Writes lines to a file, each flushed to the system at once. One rank makes one.
///
/// append goes on after what is there; if a kill left half a line, that line is ended first.
/// Errors  DataError if the file cannot be opened or a line cannot be written (disk full)
class MetricsWriter {
 public:
  MetricsWriter(std::string path, MetricsMode mode);
  void write(const StepMetrics& m) { write_line(metrics_line(m)); }
  void write_result(const StepMetrics& m) { write_line(result_line(m)); }
  void write(const ValidationMetrics& m) { write_line(metrics_line(m)); }
  void write(const CheckpointMetrics& m) { write_line(metrics_line(m)); }
  void write(const HealthSummary& s) { write_line(metrics_line(s)); }
  void write(const RunRecord& r) { write_line(metrics_line(r)); }
  void write(const EndRecord& e) { write_line(metrics_line(e)); }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  void write_line(std::string line);
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace espalier
