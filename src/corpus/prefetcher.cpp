// SPDX-License-Identifier: Apache-2.0
// The prefetch threads and their ring of filled steps.
#include "corpus/prefetcher.hpp"

#include <algorithm>
#include <chrono>

#include "core/error.hpp"

namespace espalier {

Prefetcher::Prefetcher(const BatchSource& source, MicroBatchRange range, int64_t first_step,
                       int64_t depth, int64_t workers)
    : source_(source), range_(range), first_step_(first_step), depth_(depth) {
  ESPALIER_REQUIRE(range.first >= 0 && range.count >= 0 && range.stride >= 1 &&
                       (range.count == 0 || range.index(range.count - 1) < source.micro_batches()),
                   "{} micro-batches from {} by {} of {}", range.count, range.first, range.stride,
                   source.micro_batches());
  ESPALIER_REQUIRE(first_step >= 0 && depth >= 0 && workers >= 1,
                   "first step {}, depth {}, {} workers", first_step, depth, workers);
  slots_.resize(static_cast<size_t>(depth) + 1);
  for (Slot& step : slots_) step.batches.resize(static_cast<size_t>(range.count));
  // More threads than micro-batches ahead would only wait.
  workers = depth == 0 ? 0 : std::min(workers, depth * range.count);
  running_ = workers;
  for (int64_t i = 0; i < workers; ++i) threads_.emplace_back([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// The step last handed out, taken_ - 1, must stay whole: its slot is not ours.
bool Prefetcher::may_begin() const {
  return next_task_.step < taken_ + depth_;
}

// Tasks are taken in order, so all before a failed one are in somebody's hands: when every thread
// has ended, the first failure is known, and it is the same however the threads ran.
void Prefetcher::fail(const Task& task, std::exception_ptr error) {
  const bool is_first =
      !failure_ || task.step < failed_.step || (task.step == failed_.step && task.i < failed_.i);
  if (!is_first) return;
  failed_ = task;
  failure_ = std::move(error);
}

void Prefetcher::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (first_step_ + next_task_.step < source_.batches()) {
    changed_.wait(lock, [this] { return stop_ || failure_ || may_begin(); });
    if (stop_ || failure_) break;
    if (first_step_ + next_task_.step >= source_.batches()) break;
    const Task task = next_task_;
    next_task_ = task.i + 1 < range_.count ? Task{task.step, task.i + 1} : Task{task.step + 1, 0};
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(task);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error)
      fail(task, error);
    else
      ++slot(task.step).filled;
    changed_.notify_all();
  }
  --running_;
  changed_.notify_all();
}

void Prefetcher::wait_for_step(std::unique_lock<std::mutex>& lock) {
  changed_.wait(
      lock, [this] { return slot(taken_).filled == range_.count || (failure_ && running_ == 0); });
  if (slot(taken_).filled < range_.count) std::rethrow_exception(failure_);
}

const std::vector<MicroBatch>& Prefetcher::next() {
  ESPALIER_REQUIRE(next_step() < source_.batches(), "step {} was asked for, but there are {}",
                   next_step(), source_.batches());
  const auto begin = std::chrono::steady_clock::now();
  Slot& step = slot(taken_);
  if (depth_ == 0) {
    for (int64_t i = 0; i < range_.count; ++i) fill({taken_, i});
    ++taken_;
  } else {
    std::unique_lock<std::mutex> lock(mutex_);
    wait_for_step(lock);
    step.filled = 0;  // for the step that comes into this slot when the next one is handed out
    ++taken_;
    lock.unlock();
    changed_.notify_all();
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return step.batches;
}

}  // namespace espalier
