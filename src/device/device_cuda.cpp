// SPDX-License-Identifier: Apache-2.0
// The device by the CUDA runtime: choice and memory.
#include <array>

#include "core/error.hpp"
#include "core/units.hpp"
#include "cuda/check.hpp"
#include "device/device.hpp"
#include "device/ledger.hpp"
#ifdef ESPALIER_EMULATED_DEVICE
#include "emulator/enqueue.hpp"
#else
#include <nvtx3/nvToolsExt.h>
#endif

namespace espalier {

namespace cuda {

void fail(const char* what, const char* error) {
  throw InternalError(fmt::format("{} on the GPU: {}; please report it", what, error));
}

}  // namespace cuda

namespace device {
namespace {

using cuda::check;

std::string bus_of(int ordinal) {
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal),
        "cudaDeviceGetPCIBusId");
  return bus.data();
}

bool is_tuned = true;

}  // namespace

int count() {
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) return 0;
  if (code != cudaSuccess)
    throw LaunchError(fmt::format("the CUDA driver answers: {}; see nvidia-smi on this node",
                                  cudaGetErrorString(code)));
  return devices;
}

std::vector<std::string> buses() {
  std::vector<std::string> all;
  const int devices = count();
  for (int ordinal = 0; ordinal < devices; ++ordinal) all.push_back(bus_of(ordinal));
  return all;
}

Description describe() {
  Description d;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&d.ordinal), "cudaGetDevice");
  check(cudaGetDeviceProperties(&properties, d.ordinal), "cudaGetDeviceProperties");
  d.name = properties.name;
  d.major = properties.major;
  d.minor = properties.minor;
  d.multiprocessors = properties.multiProcessorCount;
  d.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  d.bus = bus_of(d.ordinal);
  check(cudaDriverGetVersion(&d.driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&d.runtime), "cudaRuntimeGetVersion");
  return d;
}

Memory memory() {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void* allocate(int64_t bytes, const std::string& label) {
  ESPALIER_REQUIRE(!is_recording(), "{} of {} bytes is to be allocated inside a graph", label,
                   bytes);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // so that it is not found again by the next call
    const Memory m = memory();
    throw MemoryError(fmt::format(
        "{} of {} does not fit on the GPU: {} of {} are free; use a smaller "
        "batch.micro_batch_size, grid.recompute, a higher grid.zero_stage, or more ranks",
        label, format_bytes(bytes), format_bytes(m.free), format_bytes(m.total)));
  }
  check(code, "cudaMalloc");
#ifdef ESPALIER_EMULATED_DEVICE
  emulator::name_memory(data, label);
#endif
  Ledger::instance().add(data, bytes);
  return data;
}

void release(void* data) {
  if (!Ledger::instance().remove(data)) return;
  cudaFree(data);  // a failure here is one of the device itself, and seen elsewhere
}

void* allocate_pinned(int64_t bytes) {
  void* data = nullptr;
  const cudaError_t code = cudaMallocHost(&data, static_cast<size_t>(bytes));
  if (code != cudaSuccess) {
    cudaGetLastError();
    throw MemoryError(fmt::format(
        "{} of pinned host memory cannot be had ({}); use fewer ranks a node, or a smaller "
        "data.prefetch_steps",
        format_bytes(bytes), cudaGetErrorString(code)));
  }
  return data;
}
void release_pinned(void* data) {
  cudaFreeHost(data);
}

bool is_device(const void* data) {
  return Ledger::instance().contains(data);
}

void push_range(const char* name) {
#ifdef ESPALIER_EMULATED_DEVICE
  (void)name;
#else
  nvtxRangePushA(name);
#endif
}
void pop_range() {
#ifndef ESPALIER_EMULATED_DEVICE
  nvtxRangePop();
#endif
}

bool uses_tuned_kernels() {
  return is_tuned;
}
void set_tuned_kernels(bool on) {
  is_tuned = on;
}

}  // namespace device
}  // namespace espalier
