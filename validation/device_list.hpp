// SPDX-License-Identifier: Apache-2.0
// Lists of the host with a copy where kernels read and write, for tests that run on a device too.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tensor/types.hpp"
#include "tensor/views.hpp"

namespace espalier::check {

/// Host to device; waits.
template <class T>
void write_to(T* to, const std::vector<T>& values) {
  device::copy_and_wait(to, values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

/// The same from double, rounded to T.
template <class T, class = std::enable_if_t<!std::is_same_v<T, double>>>
void write_to(T* to, const std::vector<double>& values) {
  std::vector<T> rounded;
  rounded.reserve(values.size());
  for (const double x : values) rounded.push_back(T(static_cast<Acc<T>>(x)));
  write_to(to, rounded);
}

/// Device memory as double; waits for the current stream.
template <class T>
std::vector<double> read_from(const T* from, int64_t size) {
  const std::vector<T> list = host_copy(from, size);
  std::vector<double> values;
  values.reserve(list.size());
  for (const T x : list) values.push_back(static_cast<double>(static_cast<Acc<T>>(x)));
  return values;
}

/// A list that kernels get: made on the host, read back with host().
template <class T>
class DeviceList {
 public:
  DeviceList() = default;
  DeviceList(const std::vector<T>& list) : memory_(device_copy("list", list)) {}
  DeviceList(std::initializer_list<T> list) : DeviceList(std::vector<T>(list)) {}
  /// Zeros.
  explicit DeviceList(int64_t size) : memory_("list", size) {}

  T* data() const { return memory_.data(); }  ///< for kernels
  int64_t size() const { return memory_.size(); }
  bool empty() const { return size() == 0; }
  std::vector<T> host() const { return host_copy(data(), size()); }
  void write(const std::vector<T>& list) const { write_to(data(), list); }

 private:
  Buffer<T> memory_;
};

}  // namespace espalier::check
