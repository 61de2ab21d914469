// SPDX-License-Identifier: Apache-2.0
// Emulated device: CUDA's calls for devices and memory.
#include "emulator/runtime.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "emulator/device_memory.hpp"
#include "emulator/engine.hpp"

using namespace espalier::emulator;

namespace {

constexpr int kVersion = 13000;

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

struct Pinned {
  size_t bytes = 0;
  bool is_registered = false;  // memory of the caller's
};
std::map<const unsigned char*, Pinned>& pinned() {
  static auto* const all = new std::map<const unsigned char*, Pinned>;
  return *all;
}

int device_count() {
  const char* const text = getenv("ESPALIER_EMULATED_DEVICES");
  return text == nullptr ? 1 : atoi(text);
}

enum class Place { pageable, pinned, device };

bool is_pinned(const void* data, size_t bytes) {
  const auto* const p = static_cast<const unsigned char*>(data);
  auto after = pinned().upper_bound(p);
  if (after == pinned().begin()) return false;
  --after;
  return p + bytes <= after->first + after->second.bytes;
}
/// False if the bytes are neither host memory nor inside one allocation of the device.
bool find_place(const void* data, size_t bytes, Place* place) {
  if (is_device_address(data)) {
    *place = Place::device;
    return device_of(data, bytes) >= 0;
  }
  *place = is_pinned(data, bytes) ? Place::pinned : Place::pageable;
  return data != nullptr;
}

bool fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyDefault: return true;
  }
  return false;
}

}  // namespace

namespace espalier::emulator {

cudaError_t fail_with(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace espalier::emulator

#define ESPALIER_NAMES(X)                                                                        \
  X(cudaSuccess, "no error")                                                                     \
  X(cudaErrorInvalidValue, "invalid argument")                                                   \
  X(cudaErrorMemoryAllocation, "out of memory")                                                  \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")                             \
  X(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy")                        \
  X(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version") \
  X(cudaErrorNoDevice, "no CUDA-capable device is detected")                                     \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                                            \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                   \
  X(cudaErrorNotReady, "device not ready")                                                       \
  X(cudaErrorHostMemoryAlreadyRegistered, "part or all of the memory is already registered")     \
  X(cudaErrorHostMemoryNotRegistered, "the memory is not registered")                            \
  X(cudaErrorNotPermitted, "operation not permitted")                                            \
  X(cudaErrorNotSupported, "operation not supported")                                            \
  X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")       \
  X(cudaErrorStreamCaptureInvalidated, "operation failed due to an earlier error in a capture")  \
  X(cudaErrorStreamCaptureUnmatched, "capture was not begun on this stream")                     \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                        \
  X(cudaErrorStreamCaptureIsolation, "a capture depends on work outside of it")                  \
  X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capture")    \
  X(cudaErrorStreamCaptureWrongThread, "capture was begun by another thread")

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define X(name, words) \
  case name: return words;
    ESPALIER_NAMES(X)
#undef X
  }
  return "unrecognized error code";
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define X(name, words) \
  case name: return #name;
    ESPALIER_NAMES(X)
#undef X
  }
  return "unrecognized error code";
}
cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  return last_error;
}

// Devices

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : fail_with(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int device) {
  if (device_count() == 0) return fail_with(cudaErrorNoDevice);
  if (device < 0 || device >= device_count()) return fail_with(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return device_count() > 0 ? cudaSuccess : fail_with(cudaErrorNoDevice);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= device_count()) return fail_with(cudaErrorInvalidDevice);
  const Guard guard;
  *properties = {};
  snprintf(properties->name, sizeof properties->name, "Emulated device");
  properties->totalGlobalMem = device_memory_use(device).total;
  properties->sharedMemPerBlock = 48 * 1024;
  properties->sharedMemPerBlockOptin = kMostShared;
  properties->sharedMemPerMultiprocessor = kMostShared + 1024;
  properties->major = 9;
  properties->minor = 0;
  properties->multiProcessorCount = 132;
  properties->warpSize = kLanes;
  properties->maxThreadsPerBlock = kMostThreads;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->regsPerBlock = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->memoryBusWidth = 6144;
  properties->pciBusID = device + 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = properties.maxThreadsPerBlock; break;
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrComputeCapabilityMajor: *value = properties.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = properties.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
    default: return fail_with(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (device < 0 || device >= device_count()) return fail_with(cudaErrorInvalidDevice);
  if (size < 13) return fail_with(cudaErrorInvalidValue);
  snprintf(text, static_cast<size_t>(size), "0000:%02X:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// Memory

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Guard guard;
  const DeviceMemoryUse use = device_memory_use(current_device);
  *free = use.free;
  *total = use.total;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  if (device_count() == 0) return fail_with(cudaErrorNoDevice);
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  *data = allocate_device(bytes, current_device);
  return *data != nullptr ? cudaSuccess : fail_with(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* data) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  if (data == nullptr) return cudaSuccess;
  finish_all();
  return free_device(data) ? cudaSuccess : fail_with(cudaErrorInvalidValue);
}
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  // A graph would own the memory; nothing here needs that.
  if (found->capture != nullptr) return fail_with(cudaErrorNotSupported);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  *data = allocate_device(bytes, current_device);
  return *data != nullptr ? cudaSuccess : fail_with(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (found->capture != nullptr) return fail_with(cudaErrorNotSupported);
  if (data == nullptr) return cudaSuccess;
  if (device_of(data, 1) < 0) return fail_with(cudaErrorInvalidValue);
  return fail_with(submit(found, {"cudaFreeAsync",
                                  [data] {
                                    if (!free_device(data)) die("cudaFreeAsync of freed memory");
                                  },
                                  nullptr, nullptr, false}));
}
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(data, 4096, bytes) != 0) return fail_with(cudaErrorMemoryAllocation);
  memset(*data, 0xff, bytes);
  pinned()[static_cast<unsigned char*>(*data)] = {bytes, false};
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* data) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  if (data == nullptr) return cudaSuccess;
  const auto found = pinned().find(static_cast<unsigned char*>(data));
  if (found == pinned().end() || found->second.is_registered)
    return fail_with(cudaErrorInvalidValue);
  finish_all();
  pinned().erase(found);
  free(data);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  if (data == nullptr || bytes == 0) return fail_with(cudaErrorInvalidValue);
  if (is_pinned(data, 1)) return fail_with(cudaErrorHostMemoryAlreadyRegistered);
  pinned()[static_cast<unsigned char*>(data)] = {bytes, true};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* data) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const auto found = pinned().find(static_cast<unsigned char*>(data));
  if (found == pinned().end() || !found->second.is_registered)
    return fail_with(cudaErrorHostMemoryNotRegistered);
  finish_all();
  pinned().erase(found);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const Guard guard;
  *attributes = {};
  void* const plain = const_cast<void*>(data);
  const int device = device_of(data, 1);
  if (device >= 0) {
    *attributes = {cudaMemoryTypeDevice, device, plain, nullptr};
  } else if (is_pinned(data, 1)) {
    *attributes = {cudaMemoryTypeHost, current_device, plain, plain};
  } else {
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, plain};
  }
  return cudaSuccess;
}

// Copies

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (width == 0 || height == 0) return cudaSuccess;
  if (height > 1 && (to_pitch < width || from_pitch < width))
    return fail_with(cudaErrorInvalidValue);
  Place to_place, from_place;
  if (!find_place(to, (height - 1) * to_pitch + width, &to_place) ||
      !find_place(from, (height - 1) * from_pitch + width, &from_place))
    return fail_with(cudaErrorInvalidValue);
  if (!fits(kind, to_place, from_place)) return fail_with(cudaErrorInvalidMemcpyDirection);
  const bool is_pageable = to_place == Place::pageable || from_place == Place::pageable;
  // Such a copy would read or write the caller's memory whenever the graph runs.
  if (found->capture != nullptr && is_pageable) return fail_with(allow_wait(found));

  std::shared_ptr<unsigned char> staged;
  if (from_place == Place::pageable && to_place == Place::device) {
    staged.reset(new unsigned char[width * height], std::default_delete<unsigned char[]>());
    for (size_t row = 0; row < height; ++row)
      memcpy(staged.get() + row * width, static_cast<const char*>(from) + row * from_pitch, width);
    from = staged.get();
    from_pitch = width;
  }
  const auto copy = [=, keep = staged] {
    for (size_t row = 0; row < height; ++row)
      memmove(static_cast<char*>(to) + row * to_pitch,
              static_cast<const char*>(from) + row * from_pitch, width);
  };
  const cudaError_t error = submit(found, {"cudaMemcpyAsync", copy, nullptr, nullptr, false});
  if (error == cudaSuccess && is_pageable && staged == nullptr) finish(found);
  return fail_with(error);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  const cudaError_t unsafe = allow_unsafe_call();
  if (unsafe != cudaSuccess) return fail_with(unsafe);
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  if (error == cudaSuccess) finish(find_stream(nullptr));
  return error;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  const Guard guard;
  if (guard.refused() != cudaSuccess) return fail_with(guard.refused());
  CUstream_st* const found = find_stream(stream);
  if (found == nullptr) return fail_with(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  Place place;
  if (!find_place(data, bytes, &place) || place == Place::pageable)
    return fail_with(cudaErrorInvalidValue);
  return fail_with(submit(
      found, {"cudaMemsetAsync", [=] { memset(data, value, bytes); }, nullptr, nullptr, false}));
}
cudaError_t cudaMemset(void* data, int value, size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute attribute, int value) {
  const bool is_legal = attribute != cudaFuncAttributeMaxDynamicSharedMemorySize ||
                        (value >= 0 && static_cast<size_t>(value) <= kMostShared);
  return is_legal ? cudaSuccess : fail_with(cudaErrorInvalidValue);
}
