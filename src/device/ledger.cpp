// SPDX-License-Identifier: Apache-2.0
#include "device/ledger.hpp"

#include <algorithm>

#include "device/device.hpp"

namespace espalier::device {
namespace {

using Lock = std::lock_guard<std::mutex>;

uintptr_t number(const void* data) {
  return reinterpret_cast<uintptr_t>(data);
}

}  // namespace

Ledger& Ledger::instance() {
  static auto* ledger = new Ledger;  // buffers of static objects may outlive any other
  return *ledger;
}

void Ledger::add(const void* data, int64_t bytes) {
  const Lock lock(mutex_);
  bytes_[number(data)] = bytes;
  now_ += bytes;
  peak_ = std::max(peak_, now_);
}

bool Ledger::remove(const void* data) {
  const Lock lock(mutex_);
  const auto found = bytes_.find(number(data));
  if (found == bytes_.end()) return false;
  now_ -= found->second;
  bytes_.erase(found);
  return true;
}

bool Ledger::contains(const void* address) const {
  const Lock lock(mutex_);
  auto after = bytes_.upper_bound(number(address));
  if (after == bytes_.begin()) return false;
  --after;
  return number(address) < after->first + static_cast<uintptr_t>(after->second);
}

int64_t Ledger::now() const {
  const Lock lock(mutex_);
  return now_;
}
int64_t Ledger::peak() const {
  const Lock lock(mutex_);
  return peak_;
}
void Ledger::reset_peak() {
  const Lock lock(mutex_);
  peak_ = now_;
}

int64_t allocated_bytes() {
  return Ledger::instance().now();
}
int64_t peak_allocated_bytes() {
  return Ledger::instance().peak();
}
void reset_peak() {
  Ledger::instance().reset_peak();
}

}  // namespace espalier::device
