// SPDX-License-Identifier: Apache-2.0
// Captures: work is recorded instead of run, replayed as often as asked, and what a capture cannot
// hold is refused.
#include <thread>

#include "cuda/launch.cuh"
#include "emulator/enqueue.hpp"
#include "on_device.hpp"

namespace espalier::emulator {
namespace {

__global__ void add_to(int* data, int value) {
  data[threadIdx.x] += value;
}
__global__ void add_array(const int* from, int* to) {
  to[threadIdx.x] += from[threadIdx.x];
}
constexpr int kSize = 32;
const std::vector<int> kZeros(kSize, 0);

void add(cudaStream_t stream, const OnDevice<int>& data, int value) {
  cuda::launch("add_to", add_to, dim3(1), dim3(kSize), 0, stream, data.data(), value);
}
void add(cudaStream_t stream, const OnDevice<int>& from, const OnDevice<int>& to) {
  cuda::launch("add_array", add_array, dim3(1), dim3(kSize), 0, stream, from.data(), to.data());
}
void begin(cudaStream_t stream) {
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
}
cudaGraphExec_t end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  require(cudaGraphInstantiate(&executable, graph));
  require(cudaGraphDestroy(graph));
  return executable;
}

TEST(EmulatedGraph, RecordsAndReplays) {
  const OwnStream stream;
  const OnDevice<int> data(kZeros);
  const Pinned<int> pinned(kSize, 0);
  cudaStreamCaptureStatus status;
  begin(stream);
  require(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  int value = 2;
  add(stream, data, value);
  value = 1000;  // arguments are those of the capture
  require(cudaMemcpyAsync(pinned.data(), data.data(), pinned.bytes(), cudaMemcpyDefault, stream));
  const cudaGraphExec_t graph = end(stream);
  require(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  stream.wait();
  EXPECT_EQ(pinned[0], 0);  // nothing has run
  for (int n = 0; n < 3; ++n) require(cudaGraphLaunch(graph, stream));
  require(cudaGraphExecDestroy(graph));  // launches under way go on
  stream.wait();
  EXPECT_EQ(pinned[0], 6);
}

TEST(EmulatedGraph, HoldsWorkOfJoinedStreams) {
  const OwnStream first, second;
  const OwnEvent forked, joined;
  for (int n = 0; n < 20; ++n) {
    const OnDevice<int> a(kZeros), b(kZeros), sum(kZeros);
    begin(first);
    add(first, a, 1);
    require(cudaEventRecord(forked, first));
    require(cudaStreamWaitEvent(second, forked));
    add(second, a, b);  // b = 1
    add(second, b, b);  // b = 2
    require(cudaEventRecord(joined, second));
    add(first, sum, 10);
    require(cudaStreamWaitEvent(first, joined));
    add(first, b, sum);
    const cudaGraphExec_t graph = end(first);
    require(cudaGraphLaunch(graph, first));
    require(cudaGraphLaunch(graph, first));
    first.wait();
    require(cudaGraphExecDestroy(graph));
    EXPECT_EQ(b.values()[0], 8);  // 2, then (2 + 2) * 2
    EXPECT_EQ(sum.values()[5], 20 + 2 + 8);
  }
}

TEST(EmulatedGraph, RefusesUnjoinedStreams) {
  const OwnStream first, second;
  const OwnEvent forked;
  const OnDevice<int> a(kZeros);
  begin(first);
  add(first, a, 1);
  require(cudaEventRecord(forked, first));
  require(cudaStreamWaitEvent(second, forked));
  add(second, a, 1);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureInvalidated);
  begin(first);
  add(first, a, 1);
  require(cudaEventRecord(forked, first));
  require(cudaStreamWaitEvent(second, forked));
  add(second, a, 1);
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
}

/// What `call` answers inside a capture, which it must spoil.
template <class F>
cudaError_t inside_capture(cudaStreamCaptureMode mode, const F& call) {
  const OwnStream stream;
  require(cudaStreamBeginCapture(stream, mode));
  const cudaError_t error = call(static_cast<cudaStream_t>(stream));
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  EXPECT_EQ(ended, error == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
  if (graph != nullptr) cudaGraphDestroy(graph);
  return error;
}
TEST(EmulatedGraph, RefusesWhatACaptureCannotHold) {
  const OnDevice<int> data(kZeros);
  const OwnEvent event;
  const auto synchronize = [](cudaStream_t s) { return cudaStreamSynchronize(s); };
  const auto synchronize_all = [](cudaStream_t) { return cudaDeviceSynchronize(); };
  const auto allocate = [](cudaStream_t) {
    void* p = nullptr;
    const cudaError_t error = cudaMalloc(&p, 4);
    cudaFree(p);
    return error;
  };
  const auto query = [&](cudaStream_t s) {
    require(cudaEventRecord(event, s));
    return cudaEventQuery(event);
  };
  const auto copy_pageable = [&](cudaStream_t s) {
    int x = 0;
    return cudaMemcpyAsync(data.data(), &x, sizeof x, cudaMemcpyDefault, s);
  };
  constexpr auto kLocal = cudaStreamCaptureModeThreadLocal;
  EXPECT_EQ(inside_capture(kLocal, synchronize), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(inside_capture(kLocal, synchronize_all), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(inside_capture(kLocal, allocate), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(inside_capture(cudaStreamCaptureModeGlobal, allocate),
            cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(inside_capture(cudaStreamCaptureModeRelaxed, allocate), cudaSuccess);
  EXPECT_EQ(inside_capture(kLocal, query), cudaErrorCapturedEvent);
  EXPECT_EQ(inside_capture(kLocal, copy_pageable), cudaErrorStreamCaptureUnsupported);
}
TEST(EmulatedGraph, EndsInTheThreadThatBeganIt) {
  const OwnStream stream;
  cudaGraph_t graph = nullptr;
  begin(stream);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphDestroy(graph));
}
TEST(EmulatedGraph, RefusesToDependOnWorkOutside) {
  const OwnStream outside;
  const OwnEvent event;
  require(cudaEventRecord(event, outside));
  EXPECT_EQ(inside_capture(cudaStreamCaptureModeThreadLocal,
                           [&](cudaStream_t s) { return cudaStreamWaitEvent(s, event); }),
            cudaErrorStreamCaptureIsolation);
}

}  // namespace
}  // namespace espalier::emulator
