// SPDX-License-Identifier: Apache-2.0
// Owners of device memory and of pinned host memory.
#pragma once

#include <algorithm>
#include <string>

#include "device/device.hpp"

namespace espalier {

enum class Contents { zero, undefined };

/// Flat device memory; copies share it, the last one frees it.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  /// Errors  MemoryError where the memory is not there
  Buffer(const std::string& label, int64_t size, Contents contents = Contents::zero)
      : size_(size),
        data_(static_cast<T*>(device::allocate(std::max<int64_t>(bytes(), 1), label)),
              [](T* p) { device::release(p); }) {
    if (contents == Contents::zero) device::fill(data(), 0, bytes());
  }
  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  int64_t bytes() const { return size_ * static_cast<int64_t>(sizeof(T)); }

 private:
  int64_t size_ = 0;
  std::shared_ptr<T> data_;
};

/// Flat pinned host memory, not cleared.
template <class T>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(int64_t size)
      : size_(size),
        data_(static_cast<T*>(device::allocate_pinned(
                  std::max<int64_t>(size * static_cast<int64_t>(sizeof(T)), 1))),
              [](T* p) { device::release_pinned(p); }) {}
  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  int64_t size_ = 0;
  std::shared_ptr<T> data_;
};

}  // namespace espalier
