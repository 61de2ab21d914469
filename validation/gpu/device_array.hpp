// SPDX-License-Identifier: Apache-2.0
// Arrays of tests on the device: written from the host, read back, compared by their bits.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "device/buffer.hpp"
#include "tensor/types.hpp"

namespace espalier::gpu_test {

/// A device copy of a host array.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values)
      : buffer_("test", static_cast<int64_t>(values.size()), Contents::undefined) {
    device::copy_and_wait(buffer_.data(), values.data(), buffer_.bytes());
  }
  T* data() const { return buffer_.data(); }
  /// What the kernels given so far make of it.
  std::vector<T> values() const {
    std::vector<T> host(static_cast<size_t>(buffer_.size()));
    device::copy_and_wait(host.data(), buffer_.data(), buffer_.bytes());
    return host;
  }

 private:
  Buffer<T> buffer_;
};

inline cuda::Stream stream() {
  return device::Stream::compute().handle();
}

/// Every bit set: NaN in each element type, -1 as an integer.
template <class T>
std::vector<T> poisoned(int64_t size) {
  std::vector<T> values(static_cast<size_t>(size));
  if (size > 0) std::memset(static_cast<void*>(values.data()), 0xff, values.size() * sizeof(T));
  return values;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}
template <class T>
void expect_same_bits(const std::vector<T>& got, const std::vector<T>& want,
                      const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(same_bits(got[i], want[i]))
        << where << ": element " << i << " is " << static_cast<double>(got[i]) << ", should be "
        << static_cast<double>(want[i]);
}

/// Random values of a fixed seed.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1.0p-53;
  }
  int64_t below(int64_t bound) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(bound));
  }
  uint32_t word() { return static_cast<uint32_t>(engine_()); }
  template <class T>
  std::vector<T> values(int64_t size, double low = -1, double high = 1) {
    std::vector<T> x(static_cast<size_t>(size));
    for (T& v : x) v = T(static_cast<Acc<T>>(uniform(low, high)));
    return x;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace espalier::gpu_test
