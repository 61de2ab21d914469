// SPDX-License-Identifier: Apache-2.0
#include "commands/bench_timing.hpp"

#include <algorithm>
#include <memory>
#include <numeric>

#include "tensor/gemm.hpp"
#include "tensor/profile.hpp"

namespace espalier {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double gemm_rate_of_all(const Comm& world, ElementType type, int64_t size, double seconds) {
  world.barrier();
  double rate = measure_gemm_rate(type, size, seconds);
  world.all_reduce(&rate, 1, ReduceOp::sum);
  return rate;
}

StepBench::StepBench(const Launch& launch)
    : launch_(launch),
      device_(launch),
      bill_(device_.settle_and_require_room()),
      data_(launch.blueprint.config, Stream::train),
      session_(make_training_session(launch.blueprint, launch.grid)),
      prefetcher_(std::make_unique<Prefetcher>(data_, own_micro_batches(launch.blueprint), 0,
                                               launch.blueprint.config.data.prefetch_steps,
                                               launch.blueprint.config.data.workers)) {}

double StepBench::step() {
  const Comm& world = launch_.grid.world();
  for (const Comm* axis : launch_.grid.comms()) axis->take_stats();
  Profile::instance().collect();  // or what a step left uncollected would count with this one
  Profile::instance().reset();
  world.barrier();
  world.take_stats();
  const double start = monotonic_seconds();
  session_->step(prefetcher_->next(), launch_.blueprint.config.optimizer.learning_rate);
  // The host does not wait for the optimizer by itself.
  device::Stream::compute().synchronize();
  return monotonic_seconds() - start;
}

StepTiming time_steps(const Launch& launch, const BenchRequest& request) {
  const Comm& world = launch.grid.world();
  StepBench bench(launch);
  StepTiming timing;
  std::vector<double> seconds;
  for (int64_t step = 0; step < request.warmup + request.steps; ++step) {
    const bool counted = step >= request.warmup;
    if (counted)
      timing.gemm_rate = std::max(
          timing.gemm_rate, gemm_rate_of_all(world, launch.blueprint.config.numerics.compute_type,
                                             gemm_extent(2048), 0.4));
    const double waited = bench.prefetcher().wait_seconds();
    double took = bench.step();
    if (!counted) continue;
    for (const Comm* axis : launch.grid.comms()) {
      const CommStats stats = axis->take_stats();
      timing.exposed += stats.exposed_seconds / static_cast<double>(request.steps);
      timing.bytes += stats.bytes / request.steps;
    }
    timing.data_wait +=
        (bench.prefetcher().wait_seconds() - waited) / static_cast<double>(request.steps);
    Profile::instance().collect();
    for (int p = 0; p < kPartCount; ++p)
      timing.parts[p] += Profile::instance().all()[p] / static_cast<double>(request.steps);
    world.all_reduce(&took, 1, ReduceOp::max);
    seconds.push_back(took);
  }
  timing.device_peak = bench.device().use().peak;
  timing.device_predicted = bench.bill().total(MemorySpace::device);
  timing.seconds = median(seconds);
  timing.mean =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  timing.fastest = *std::min_element(seconds.begin(), seconds.end());
  return timing;
}

}  // namespace espalier
