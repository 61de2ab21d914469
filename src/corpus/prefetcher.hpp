// SPDX-License-Identifier: Apache-2.0
// A thread that has the micro-batches of the coming steps ready before they are asked for.
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

/// Fills this rank's micro-batches of the steps from `first_step` on, at most `depth` steps ahead.
/// depth = 0 means no thread: next() fills. Memory is depth + 1 steps of micro-batches.
/// The source must outlive the prefetcher. next() belongs to one thread.
class Prefetcher {
 public:
  Prefetcher(const BatchSource& source, MicroBatchRange range, int64_t first_step, int64_t depth);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The micro-batches of the next step, in order; valid until the next call.
  /// Errors    what the source threw for that step (again at each later call); Internal after the
  ///           source's last batch
  const std::vector<MicroBatch>& next();

  int64_t next_step() const { return first_step_ + taken_; }  ///< the step that next() gives
  double wait_seconds() const { return wait_seconds_; }       ///< s spent inside next(), all calls

 private:
  void run();
  void fill(int64_t step, std::vector<MicroBatch>& out) const;
  std::vector<MicroBatch>& slot(int64_t count) {
    return slots_[static_cast<size_t>(count % static_cast<int64_t>(slots_.size()))];
  }

  const BatchSource& source_;
  MicroBatchRange range_;
  int64_t first_step_, depth_;
  std::vector<std::vector<MicroBatch>> slots_;  // a ring: one in the caller's hands, depth ahead
  int64_t taken_ = 0;                           // steps handed out; written by the caller only
  double wait_seconds_ = 0.0;

  std::mutex mutex_;  // guards the four below, and taken_ when it is written
  std::condition_variable changed_;
  int64_t ready_ = 0;  // steps filled
  bool stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace espalier
