// SPDX-License-Identifier: Apache-2.0
// What the tests of the emulated device share: arrays on it, and a stream of its own.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace espalier::emulator {

inline void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

template <class T>
class OnDevice {
 public:
  explicit OnDevice(size_t size) : size_(size) { require(cudaMalloc(&data_, size * sizeof(T))); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    require(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* data() const { return data_; }
  size_t bytes() const { return size_ * sizeof(T); }
  /// As of what has run by now.
  std::vector<T> values() const {
    std::vector<T> out(size_);
    require(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

template <class T>
class Pinned {
 public:
  Pinned(size_t size, T value) : size_(size) {
    require(cudaMallocHost(&data_, size * sizeof(T)));
    std::fill(data_, data_ + size, value);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  size_t size_;
};

class OwnStream {
 public:
  OwnStream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  ~OwnStream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }  // NOLINT: as a handle
  void wait() const { require(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class OwnEvent {
 public:
  explicit OwnEvent(unsigned flags = cudaEventDisableTiming) {
    require(cudaEventCreateWithFlags(&event_, flags));
  }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  ~OwnEvent() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }  // NOLINT: as a handle

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace espalier::emulator
