// SPDX-License-Identifier: Apache-2.0
// What device::allocate() gave out: how much, and whether an address lies in it. Private to this
// room.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace espalier::device {

/// One per process; any thread may call.
class Ledger {
 public:
  static Ledger& instance();
  void add(const void* data, int64_t bytes);
  /// Whether `data` was there.
  bool remove(const void* data);
  bool contains(const void* address) const;
  int64_t now() const;
  int64_t peak() const;
  void reset_peak();

 private:
  mutable std::mutex mutex_;
  std::map<uintptr_t, int64_t> bytes_;  // by the address of each allocation
  int64_t now_ = 0, peak_ = 0;
};

}  // namespace espalier::device
