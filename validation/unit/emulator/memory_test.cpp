// SPDX-License-Identifier: Apache-2.0
// Device memory that the host cannot touch, and the calls that move and hand it out.
#include <cstdlib>

#include "cuda/launch.cuh"
#include "emulator/enqueue.hpp"
#include "on_device.hpp"

namespace espalier::emulator {
namespace {

__global__ void write_at(int* data, int64_t index) {
  data[index] = 5;
}
void write(int* data, int64_t index) {
  cuda::launch("write_at", write_at, dim3(1), dim3(1), 0, nullptr, data, index);
  cudaDeviceSynchronize();
}

TEST(EmulatedMemory, IsAlignedAndPoisoned) {
  const OnDevice<unsigned> small(3), large(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(small.data()) % 256, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % 256, 0u);
  EXPECT_EQ(small.values(), std::vector<unsigned>(3, 0xffffffffu));
  EXPECT_EQ(large.values(), std::vector<unsigned>(1 << 20, 0xffffffffu));
}

TEST(EmulatedMemoryDeathTest, FindsTheHostInDeviceMemory) {
  const OnDevice<int> data(64);
  name_memory(data.data(), "weights");
  write(data.data(), 2);  // opened and closed again
  volatile int* const p = data.data();
  EXPECT_DEATH(p[2] = 1,
               "the host touched device memory at .*byte 8 of the 256 bytes of device "
               "memory 'weights'");
  EXPECT_DEATH((void)p[2], "the host touched device memory");
}

TEST(EmulatedMemoryDeathTest, FindsAccessesOutsideAllocations) {
  const OnDevice<int> data(64), odd(3);
  EXPECT_DEATH(
      write(data.data(), 64),
      "kernel 'write_at', block \\(0, 0, 0\\), thread \\(0, 0, 0\\) touched .*byte 256 of");
  // Too near to be caught in the act: found when the memory is freed.
  int* const p = odd.data();
  EXPECT_DEATH((write(p, 3), cudaFree(p)), "something was written at byte 12 of the 12 bytes");
  EXPECT_DEATH((write(p, -1), cudaFree(p)), "something was written at byte -4 of the 12 bytes");
  int* freed = nullptr;
  require(cudaMalloc(&freed, 256));
  require(cudaFree(freed));
  EXPECT_DEATH(write(freed, 0), "touched .* of freed device memory");
  EXPECT_EQ(cudaFree(freed), cudaErrorInvalidValue);
}

TEST(EmulatedMemory, KnowsPointers) {
  const OnDevice<int> data(64);
  const Pinned<int> pinned(8, 0);
  int plain = 0;
  cudaPointerAttributes attributes;
  const auto type = [&](const void* p) {
    require(cudaPointerGetAttributes(&attributes, p));
    return attributes.type;
  };
  EXPECT_EQ(type(data.data() + 5), cudaMemoryTypeDevice);
  EXPECT_EQ(type(pinned.data() + 5), cudaMemoryTypeHost);
  EXPECT_EQ(type(&plain), cudaMemoryTypeUnregistered);
  EXPECT_EQ(type(data.data() + 64), cudaMemoryTypeUnregistered);
}

TEST(EmulatedMemory, RefusesCopiesThatDoNotFit) {
  const OnDevice<int> data(64);
  int host[65] = {};
  const auto copy = [&](void* to, const void* from, size_t count, cudaMemcpyKind kind) {
    return cudaMemcpy(to, from, count * sizeof(int), kind);
  };
  EXPECT_EQ(copy(data.data(), host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(data.data() + 1, host, 64, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, data.data(), 64, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(copy(data.data(), host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemset(data.data() + 60, 0, 20), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(copy(data.data(), host, 64, cudaMemcpyDefault), cudaSuccess);
}

TEST(EmulatedMemory, CopiesRows) {
  std::vector<int> from(12);
  for (int i = 0; i < 12; ++i) from[static_cast<size_t>(i)] = i;
  const OnDevice<int> source(from), to(std::vector<int>(10, -1));
  require(cudaMemcpy2DAsync(to.data() + 1, 20, source.data(), 16, 8, 2, cudaMemcpyDeviceToDevice));
  require(cudaDeviceSynchronize());
  EXPECT_EQ(to.values(), (std::vector<int>{-1, 0, 1, -1, -1, -1, 4, 5, -1, -1}));
}

TEST(EmulatedMemory, RunsOut) {
  size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total));
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, free + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(data, nullptr);
  const OnDevice<char> some(100000);
  size_t less = 0;
  require(cudaMemGetInfo(&less, &total));
  EXPECT_EQ(free - less, 100096u);  // in units of 256 bytes
}

TEST(EmulatedMemory, CountsDevices) {
  int count = -1;
  setenv("ESPALIER_EMULATED_DEVICES", "0", 1);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  setenv("ESPALIER_EMULATED_DEVICES", "2", 1);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  cudaSetDevice(0);
  unsetenv("ESPALIER_EMULATED_DEVICES");
  cudaDeviceProp properties;
  require(cudaGetDeviceProperties(&properties, 0));
  EXPECT_STREQ(properties.name, "Emulated device");
}

TEST(EmulatedMemory, FreesInStreamOrder) {
  const OwnStream stream;
  int* data = nullptr;
  require(cudaMallocAsync(&data, 400, stream));
  cuda::launch("write_at", write_at, dim3(1), dim3(1), 0, stream, data, int64_t{3});
  const Pinned<int> seen(1, 0);
  require(cudaMemcpyAsync(seen.data(), data + 3, 4, cudaMemcpyDeviceToHost, stream));
  require(cudaFreeAsync(data, stream));
  stream.wait();
  EXPECT_EQ(seen[0], 5);
  EXPECT_EQ(cudaMemset(data, 0, 4), cudaErrorInvalidValue);  // freed by now
}

}  // namespace
}  // namespace espalier::emulator
