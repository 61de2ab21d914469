// SPDX-License-Identifier: Apache-2.0
// The prefetch thread and its ring of filled steps.
#include "corpus/prefetcher.hpp"

#include <chrono>

#include "core/error.hpp"

namespace espalier {

Prefetcher::Prefetcher(const BatchSource& source, MicroBatchRange range, int64_t first_step,
                       int64_t depth)
    : source_(source), range_(range), first_step_(first_step), depth_(depth) {
  ESPALIER_REQUIRE(range.first >= 0 && range.count >= 0 && range.stride >= 1 &&
                       (range.count == 0 || range.index(range.count - 1) < source.micro_batches()),
                   "{} micro-batches from {} by {} of {}", range.count, range.first, range.stride,
                   source.micro_batches());
  ESPALIER_REQUIRE(first_step >= 0 && depth >= 0, "first step {}, depth {}", first_step, depth);
  slots_.resize(static_cast<size_t>(depth) + 1);
  for (auto& step : slots_) step.resize(static_cast<size_t>(range.count));
  if (depth > 0) thread_ = std::thread([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::fill(int64_t step, std::vector<MicroBatch>& out) const {
  for (int64_t i = 0; i < range_.count; ++i)
    source_.fill(step, range_.index(i), out[static_cast<size_t>(i)]);
}

void Prefetcher::run() {
  // ready_ changes in this thread only, so it may be read here without the lock.
  while (first_step_ + ready_ < source_.batches()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      // The step last handed out, taken_ - 1, must stay whole: its slot is not ours.
      changed_.wait(lock, [this] { return stop_ || ready_ < taken_ + depth_; });
      if (stop_) return;
    }
    std::exception_ptr failure;
    try {
      fill(first_step_ + ready_, slot(ready_));
    } catch (...) {
      failure = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      failure_ = failure;
      if (!failure) ++ready_;
    }
    changed_.notify_all();
    if (failure) return;
  }
}

const std::vector<MicroBatch>& Prefetcher::next() {
  ESPALIER_REQUIRE(next_step() < source_.batches(), "step {} was asked for, but there are {}",
                   next_step(), source_.batches());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<MicroBatch>& step = slot(taken_);
  if (depth_ == 0) {
    fill(next_step(), step);
    ++taken_;
  } else {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ready_ > taken_ || failure_; });
    if (ready_ <= taken_) std::rethrow_exception(failure_);
    ++taken_;
    lock.unlock();
    changed_.notify_all();
  }
  wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return step;
}

}  // namespace espalier
