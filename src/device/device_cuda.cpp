// SPDX-License-Identifier: Apache-2.0
// The device by the CUDA runtime: choice, memory, its ledger.
#include <array>
#include <map>
#include <mutex>

#include "core/error.hpp"
#include "core/units.hpp"
#include "cuda/check.hpp"
#include "device/device.hpp"
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

struct Block {
  int64_t bytes;
  std::string label;
};
struct Ledger {
  std::mutex mutex;
  std::map<uintptr_t, Block> blocks;
  int64_t now = 0, peak = 0;
};
Ledger& ledger() {
  static auto* l = new Ledger;  // buffers of static objects may outlive any other
  return *l;
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
  for (int ordinal = 0; ordinal < count(); ++ordinal) {
    std::array<char, 32> bus{};
    check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal),
          "cudaDeviceGetPCIBusId");
    all.emplace_back(bus.data());
  }
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
  std::array<char, 32> bus{};
  check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), d.ordinal),
        "cudaDeviceGetPCIBusId");
  d.bus = bus.data();
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
  Ledger& l = ledger();
  const std::lock_guard<std::mutex> lock(l.mutex);
  l.blocks[reinterpret_cast<uintptr_t>(data)] = {bytes, label};
  l.now += bytes;
  if (l.now > l.peak) l.peak = l.now;
  return data;
}

void release(void* data) {
  Ledger& l = ledger();
  {
    const std::lock_guard<std::mutex> lock(l.mutex);
    const auto found = l.blocks.find(reinterpret_cast<uintptr_t>(data));
    if (found == l.blocks.end()) return;
    l.now -= found->second.bytes;
    l.blocks.erase(found);
  }
  cudaFree(data);  // a failure here is one of the device itself, and seen elsewhere
}

int64_t allocated_bytes() {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  return ledger().now;
}
int64_t peak_allocated_bytes() {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  return ledger().peak;
}
void reset_peak() {
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  ledger().peak = ledger().now;
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
  const auto address = reinterpret_cast<uintptr_t>(data);
  const std::lock_guard<std::mutex> lock(ledger().mutex);
  const auto& blocks = ledger().blocks;
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  --after;
  return address < after->first + static_cast<uintptr_t>(after->second.bytes);
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
