// SPDX-License-Identifier: Apache-2.0
#include "grid/staging_pool.hpp"

#include <array>
#include <mutex>
#include <vector>

#include "core/error.hpp"

namespace espalier {
namespace {

// Sizes are powers of two from 4 KiB on: few classes, so that blocks find a second use.
constexpr int kSmallest = 12, kClasses = 48;

struct Pool {
  std::mutex mutex;
  std::array<std::vector<void*>, kClasses> blocks;
  std::vector<device::Event> events;
  int64_t bytes = 0;
};

// Never destroyed: a request may outlive every other static object, and the driver takes pinned
// memory back with the process.
Pool& pool() {
  static Pool* const p = new Pool;
  return *p;
}

int class_of(int64_t bytes) {
  int c = 0;
  while ((int64_t{1} << (kSmallest + c)) < bytes) ++c;
  ESPALIER_REQUIRE(c < kClasses, "pinned memory for a message of {} bytes", bytes);
  return c;
}

template <class T>
bool take(std::vector<T>& from, T& to) {
  const std::lock_guard<std::mutex> lock(pool().mutex);
  if (from.empty()) return false;
  to = std::move(from.back());
  from.pop_back();
  return true;
}

}  // namespace

PooledEvent::PooledEvent() {
  take(pool().events, event_);
}

PooledEvent::~PooledEvent() {
  const std::lock_guard<std::mutex> lock(pool().mutex);
  pool().events.push_back(std::move(event_));
}

StagingBlock::StagingBlock(int64_t bytes) : size_class_(class_of(bytes)), data_(nullptr) {
  if (take(pool().blocks[static_cast<size_t>(size_class_)], data_)) return;
  const int64_t size = int64_t{1} << (kSmallest + size_class_);
  data_ = device::allocate_pinned(size);
  const std::lock_guard<std::mutex> lock(pool().mutex);
  pool().bytes += size;
}

StagingBlock::~StagingBlock() {
  const std::lock_guard<std::mutex> lock(pool().mutex);
  pool().blocks[static_cast<size_t>(size_class_)].push_back(data_);
}

int64_t staging_bytes() {
  const std::lock_guard<std::mutex> lock(pool().mutex);
  return pool().bytes;
}

}  // namespace espalier
