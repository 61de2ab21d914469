// SPDX-License-Identifier: Apache-2.0
// Streams that run late: a host that does not wait, or a stream that does not wait for another,
// sees old values.
#include <thread>

#include "cuda/launch.cuh"
#include "emulator/enqueue.hpp"
#include "on_device.hpp"

namespace espalier::emulator {
namespace {

class EmulatedStreams : public testing::TestWithParam<Order> {
 protected:
  void SetUp() override { set_order(GetParam()); }
  void TearDown() override { set_order(Order::random); }
  static bool is_eager() { return GetParam() == Order::eager; }
};
INSTANTIATE_TEST_SUITE_P(Orders, EmulatedStreams,
                         testing::Values(Order::lazy, Order::random, Order::eager));

__global__ void add_to(int* data, int value) {
  data[threadIdx.x] += value;
}
__global__ void copy_of(const int* from, int* to) {
  to[threadIdx.x] = from[threadIdx.x];
}
constexpr int kSize = 64;
const std::vector<int> kZeros(kSize, 0);

void add(cudaStream_t stream, const OnDevice<int>& data, int value) {
  cuda::launch("add_to", add_to, dim3(1), dim3(kSize), 0, stream, data.data(), value);
}

TEST_P(EmulatedStreams, RunWhenTheHostWaits) {
  const OwnStream stream;
  const OnDevice<int> data(kZeros);
  const Pinned<int> out(kSize, -7);
  add(stream, data, 3);
  require(cudaMemcpyAsync(out.data(), data.data(), out.bytes(), cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(out[0], is_eager() ? 3 : -7);
  stream.wait();
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[kSize - 1], 3);
}

TEST_P(EmulatedStreams, ReadPageableMemoryNowAndPinnedMemoryLate) {
  const OwnStream stream;
  const OnDevice<int> from_pageable(kSize), from_pinned(kSize);
  std::vector<int> pageable(kSize, 1);
  const Pinned<int> pinned(kSize, 1);
  const auto send = [&](const OnDevice<int>& to, const int* from) {
    require(cudaMemcpyAsync(to.data(), from, to.bytes(), cudaMemcpyHostToDevice, stream));
  };
  send(from_pageable, pageable.data());
  send(from_pinned, pinned.data());
  pageable[0] = 2;
  pinned[0] = 2;  // too early
  stream.wait();
  EXPECT_EQ(from_pageable.values()[0], 1);
  EXPECT_EQ(from_pinned.values()[0], is_eager() ? 1 : 2);
  // To pageable memory the host has to wait, as with CUDA.
  add(stream, from_pageable, 10);
  require(cudaMemcpyAsync(pageable.data(), from_pageable.data(), from_pageable.bytes(),
                          cudaMemcpyDefault, stream));
  EXPECT_EQ(pageable[0], 11);
}

/// A chain over two streams; returns what the last link saw.
int chain(bool waits, bool host_waits_for_first) {
  const OwnStream first, second;
  const OwnEvent done;
  const OnDevice<int> data(kZeros), copied(kZeros);
  add(first, data, 4);
  add(first, data, 1);
  require(cudaEventRecord(done, first));
  if (waits) require(cudaStreamWaitEvent(second, done));
  add(first, data, 100);  // after the event
  cuda::launch("copy_of", copy_of, dim3(1), dim3(kSize), 0, second, data.data(), copied.data());
  (host_waits_for_first ? first : second).wait();
  second.wait();
  return copied.values()[0];
}
TEST_P(EmulatedStreams, KeepTheOrderOfEvents) {
  if (is_eager()) {
    EXPECT_EQ(chain(true, false), 105);
    return;
  }
  bool saw_too_little = false, saw_more = false;
  for (int n = 0; n < 40; ++n) {
    const int seen = chain(true, n % 2 == 0);
    EXPECT_TRUE(seen == 5 || seen == 105) << seen;
    saw_more = saw_more || seen == 105;
    saw_too_little = saw_too_little || chain(false, n % 2 == 0) < 5;
  }
  EXPECT_TRUE(saw_too_little);  // the missing wait shows
  EXPECT_TRUE(saw_more);        // and so does what nothing orders
}

TEST(EmulatedStream, LeavesOtherWorkPending) {
  set_order(Order::lazy);
  const OwnStream first, second;
  const OwnEvent early;
  const OnDevice<int> data(kZeros), other(kZeros);
  add(first, data, 1);
  require(cudaEventRecord(early, first));
  add(first, data, 1);
  add(second, other, 1);
  EXPECT_EQ(pending_operations(), 4);
  require(cudaEventSynchronize(early));
  EXPECT_EQ(pending_operations(), 2);
  second.wait();
  EXPECT_EQ(pending_operations(), 1);
  require(cudaDeviceSynchronize());
  EXPECT_EQ(pending_operations(), 0);
  set_order(Order::random);
}

TEST_P(EmulatedStreams, AnswerPollingHosts) {
  const OwnStream stream, other;
  const OwnEvent event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  const OnDevice<int> data(kZeros), more(kZeros);
  for (int n = 0; n < 10; ++n) {
    add(stream, data, 1);
    add(other, more, 1);
  }
  require(cudaEventRecord(event, stream));
  int asked = 0;
  while (cudaEventQuery(event) == cudaErrorNotReady) ++asked;
  EXPECT_LE(asked, 21);
  EXPECT_GE(asked, is_eager() ? 0 : 10);
  while (cudaStreamQuery(other) == cudaErrorNotReady) ++asked;
  EXPECT_EQ(more.values()[0], 10);
}

TEST_P(EmulatedStreams, MeasureTimeBetweenEvents) {
  const OwnStream stream;
  const OwnEvent from(cudaEventDefault), to(cudaEventDefault);
  const OnDevice<int> data(kZeros);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorInvalidResourceHandle);
  require(cudaEventRecord(from, stream));
  enqueue(
      stream, [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, "sleep");
  require(cudaEventRecord(to, stream));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to),
            is_eager() ? cudaSuccess : cudaErrorNotReady);
  require(cudaEventSynchronize(to));
  require(cudaEventElapsedTime(&milliseconds, from, to));
  EXPECT_GE(milliseconds, 5.0f);
}

TEST_P(EmulatedStreams, RunEnqueuedWorkOnDeviceMemory) {
  const OwnStream stream;
  const OnDevice<int> data(kZeros);
  int* const p = data.data();
  enqueue(
      stream, [p] { p[3] = 8; }, "portable");
  require(cudaFreeHost(nullptr));
  stream.wait();
  EXPECT_EQ(data.values()[3], 8);
}

TEST(EmulatedStreamDeathTest, ClosesDeviceMemoryToHostFunctions) {
  const OnDevice<int> data(kZeros);
  const OwnStream stream;
  int calls = 0;
  require(cudaLaunchHostFunc(
      stream, [](void* p) { ++*static_cast<int*>(p); }, &calls));
  EXPECT_EQ(calls, 0);
  stream.wait();
  EXPECT_EQ(calls, 1);
  const auto touch = [&] {
    add(stream, data, 1);  // leaves the memory open behind it
    require(cudaLaunchHostFunc(
        stream, [](void* p) { ++*static_cast<int*>(p); }, data.data()));
    stream.wait();
  };
  EXPECT_DEATH(touch(), "the host touched device memory");
}

TEST(EmulatedStream, RefusesCallsInsideWork) {
  const OwnStream stream;
  cudaError_t seen[3] = {};
  enqueue(
      stream,
      [&] {
        void* p = nullptr;
        seen[0] = cudaMalloc(&p, 4);
        seen[1] = cudaStreamSynchronize(stream);
        seen[2] = cudaFree(nullptr);
      },
      "calls");
  stream.wait();
  for (const cudaError_t error : seen) EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST_P(EmulatedStreams, ServeSeveralHostThreads) {
  std::vector<std::thread> threads;
  std::vector<int> results(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&results, t] {
      const OwnStream stream;
      const OnDevice<int> data(kZeros);
      for (int n = 0; n < 20; ++n) {
        add(stream, data, t);
        if (n % 5 == 0) stream.wait();
      }
      stream.wait();
      results[static_cast<size_t>(t)] = data.values()[7];
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, (std::vector<int>{0, 20, 40, 60}));
}

}  // namespace
}  // namespace espalier::emulator
