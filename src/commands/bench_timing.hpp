// SPDX-License-Identifier: Apache-2.0
// Timing of whole steps, for the benchmarks.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "commands/run_device.hpp"
#include "commands/spmd_context.hpp"
#include "commands/training_session.hpp"

namespace espalier {

struct BenchRequest {
  std::string deck;
  std::vector<std::string> overrides;
  int64_t steps = 5, warmup = 1, size = 2048;
};

/// Medians (parts and `mean`: means) over the counted steps, the slowest rank's where ranks differ.
struct StepTiming {
  double seconds = 0.0, fastest = 0.0, mean = 0.0;
  double gemm_rate = 0.0;  // FLOP/s over all ranks, the best of those before the steps
  double exposed = 0.0;    // s a step
  double data_wait = 0.0;  // s a step
  int64_t bytes = 0;       // sent by this rank in a step
  std::array<double, kPartCount> parts{};
  int64_t device_peak = 0, device_predicted = 0;  // bytes, with the context; 0 on the host
};

double median(std::vector<double> values);

/// Extent of the product that shows a rate: on a device large enough to fill it, on an emulated one
/// small enough to come to an end.
#ifdef ESPALIER_EMULATED_DEVICE
constexpr int64_t gemm_extent(int64_t) {
  return 32;
}
#else
constexpr int64_t gemm_extent(int64_t on_host) {
  return device::kPresent ? 8192 : on_host;
}
#endif

/// All ranks at once, so that they share the cores as a step does.
double gemm_rate_of_all(const Comm& world, ElementType type, int64_t size, double seconds);

/// A deck in training, of which single steps are timed. Collective over the grid.
/// Errors  LaunchError with the bill where it does not fit into a device
class StepBench {
 public:
  explicit StepBench(const Launch& launch);
  /// Seconds of one step, the slowest rank's.
  double step();
  TrainingSession& session() { return *session_; }
  Prefetcher& prefetcher() { return *prefetcher_; }
  const RunDevice& device() const { return device_; }
  const MemoryBill& bill() const { return bill_; }

 private:
  const Launch& launch_;
  RunDevice device_;
  MemoryBill bill_;
  BatchSource data_;
  std::unique_ptr<TrainingSession> session_;
  std::unique_ptr<Prefetcher> prefetcher_;
};

StepTiming time_steps(const Launch& launch, const BenchRequest& request);

// Verbs of bench in other files.
int bench_layouts(const BenchRequest& request, const std::vector<std::string>& variants);
int bench_pipeline(const BenchRequest& request);

}  // namespace espalier
