// SPDX-License-Identifier: Apache-2.0
// Threads that have the micro-batches of the coming steps ready before they are asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "corpus/batch_source.hpp"

namespace espalier {

/// Which micro-batches of a global batch a rank works on: first, first + stride, ...
struct MicroBatchRange {
  int64_t first = 0;
  int64_t count = 0;
  int64_t stride = 1;
  int64_t index(int64_t i) const { return first + i * stride; }
};

/// Fills this rank's micro-batches of the steps from `first_step` on, at most `depth` steps ahead,
/// by `workers` threads: each takes the next micro-batch that nobody has taken. What next() gives
/// does not depend on their number. depth = 0 means no thread: next() fills. Memory is depth + 1
/// steps of micro-batches.
/// The source must outlive the prefetcher. next() belongs to one thread.
class Prefetcher {
 public:
  Prefetcher(const BatchSource& source, MicroBatchRange range, int64_t first_step, int64_t depth,
             int64_t workers = 1);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The micro-batches of the next step, in order; valid until the next call.
  /// Errors    what the source threw for the step's first micro-batch that it threw for (again at
  ///           each later call); Internal after the source's last batch
  const std::vector<MicroBatch>& next();

  int64_t next_step() const { return first_step_ + taken_; }  ///< the step that next() gives
  double wait_seconds() const { return wait_seconds_; }       ///< s spent inside next(), all calls

 private:
  /// One micro-batch to fill: number i of the rank's in step first_step_ + step.
  struct Task {
    int64_t step, i;
  };
  struct Slot {
    std::vector<MicroBatch> batches;
    int64_t filled = 0;
  };

  void run();
  bool may_begin() const;
  void fail(const Task& task, std::exception_ptr error);
  void wait_for_step(std::unique_lock<std::mutex>& lock);
  void fill(const Task& task) {
    source_.fill(first_step_ + task.step, range_.index(task.i),
                 slot(task.step).batches[static_cast<size_t>(task.i)]);
  }
  Slot& slot(int64_t step) {
    return slots_[static_cast<size_t>(step % static_cast<int64_t>(slots_.size()))];
  }

  const BatchSource& source_;
  MicroBatchRange range_;
  int64_t first_step_, depth_;
  std::vector<Slot> slots_;  // a ring: one step in the caller's hands, depth ahead
  int64_t taken_ = 0;        // steps handed out; written by the caller only
  double wait_seconds_ = 0.0;

  std::mutex mutex_;  // guards the rest, filled of slots, and taken_ when it is written
  std::condition_variable changed_;
  Task next_task_{0, 0};  // the first that nobody has taken
  int64_t running_ = 0;   // threads that have not ended
  bool stop_ = false;
  Task failed_{0, 0};
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace espalier
