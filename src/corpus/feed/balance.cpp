// SPDX-License-Identifier: Apache-2.0
// Longest first to the least loaded.
#include "corpus/feed/balance.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

#include "core/error.hpp"

namespace espalier {
namespace {

constexpr size_t kRecentSteps = 64;  // more than threads work on at once; a few KB each

}  // namespace

std::vector<int64_t> deal_by_work(const std::vector<int64_t>& work, int64_t micro_batch_size) {
  const auto n = static_cast<int64_t>(work.size());
  ESPALIER_REQUIRE(micro_batch_size >= 1 && n % micro_batch_size == 0,
                   "{} sequences in micro-batches of {}", n, micro_batch_size);
  std::vector<int64_t> by_work(work.size());
  std::iota(by_work.begin(), by_work.end(), 0);
  std::stable_sort(by_work.begin(), by_work.end(), [&](int64_t a, int64_t b) {
    return work[static_cast<size_t>(a)] > work[static_cast<size_t>(b)];
  });
  using Load = std::pair<int64_t, int64_t>;  // work so far, micro-batch
  std::priority_queue<Load, std::vector<Load>, std::greater<>> with_room;
  for (int64_t m = 0; m < n / micro_batch_size; ++m) with_room.emplace(0, m);
  std::vector<std::vector<int64_t>> dealt(static_cast<size_t>(n / micro_batch_size));
  for (const int64_t i : by_work) {
    const auto [load, m] = with_room.top();
    with_room.pop();
    auto& own = dealt[static_cast<size_t>(m)];
    own.push_back(i);
    if (static_cast<int64_t>(own.size()) < micro_batch_size)
      with_room.emplace(load + work[static_cast<size_t>(i)], m);
  }
  std::vector<int64_t> order;
  order.reserve(work.size());
  for (auto& own : dealt) {
    std::sort(own.begin(), own.end());
    order.insert(order.end(), own.begin(), own.end());
  }
  return order;
}

double load_imbalance(const std::vector<int64_t>& work, const std::vector<int64_t>& order,
                      int64_t micro_batch_size) {
  double largest = 0.0, sum = 0.0;
  for (size_t begin = 0; begin < order.size(); begin += static_cast<size_t>(micro_batch_size)) {
    double load = 0.0;
    for (size_t i = begin; i < begin + static_cast<size_t>(micro_batch_size); ++i)
      load += static_cast<double>(work[static_cast<size_t>(order[i])]);
    largest = std::max(largest, load);
    sum += load;
  }
  if (sum == 0.0) return 1.0;
  return largest * static_cast<double>(order.size() / static_cast<size_t>(micro_batch_size)) / sum;
}

std::shared_ptr<const std::vector<int64_t>> StepDeals::of(int64_t step) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : recent_)
      if (known->step == step) entry = known;
    if (!entry) {
      if (recent_.size() >= kRecentSteps) recent_.erase(recent_.begin());
      entry = std::make_shared<Entry>();
      entry->step = step;
      recent_.push_back(entry);
    }
  }
  const std::lock_guard<std::mutex> lock(entry->mutex);
  if (!entry->is_made) {
    entry->order = make_(step);
    entry->is_made = true;
  }
  return {entry, &entry->order};
}

void StepDeals::forget() {
  const std::lock_guard<std::mutex> lock(mutex_);
  recent_.clear();
}

}  // namespace espalier
