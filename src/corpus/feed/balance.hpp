// SPDX-License-Identifier: Apache-2.0
// Dealing the sequences of a step to its micro-batches so that each carries like attention work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace espalier {

/// Which sequence of a step (by its place in the stream) stands at each place of the step: places
/// [m * micro_batch_size, (m + 1) * micro_batch_size) are micro-batch m. The longest work goes
/// first, each to the least loaded micro-batch with room; ties go to the lower number. Inside a
/// micro-batch sequences keep the order of the stream. No rank or grid enters.
/// Cost      O(n log n)
/// Errors    Internal if micro_batch_size does not divide the sequences
/// Source    Graham 1969, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 17
std::vector<int64_t> deal_by_work(const std::vector<int64_t>& work, int64_t micro_batch_size);

/// Largest over mean load of the micro-batches that consecutive runs of `order` make; 1 is even.
double load_imbalance(const std::vector<int64_t>& work, const std::vector<int64_t>& order,
                      int64_t micro_batch_size);

/// Deals of the last few steps, each made once however many threads ask for it.
class StepDeals {
 public:
  using Make = std::function<std::vector<int64_t>(int64_t step)>;
  explicit StepDeals(Make make) : make_(std::move(make)) {}

  /// Errors    what `make` throws, to all who wait for this step; the next call tries again
  std::shared_ptr<const std::vector<int64_t>> of(int64_t step);
  void forget();

 private:
  struct Entry {
    int64_t step;
    std::mutex mutex;  // held while it is made
    bool is_made = false;
    std::vector<int64_t> order;
  };
  Make make_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Entry>> recent_;  // newest last
};

}  // namespace espalier
