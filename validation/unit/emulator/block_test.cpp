// SPDX-License-Identifier: Apache-2.0
// Threads, warps, blocks: what they compute together, and that what a device would not forgive ends
// the process with its place.
#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "cuda/primitives.cuh"
#include "on_device.hpp"

namespace espalier::emulator {
namespace {

using cuda::launch;
using cuda::shared_memory;

__global__ void note_indexes(int* visits, int* order, int* next) {
  const int block =
      static_cast<int>((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  const int thread =
      static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  const int size = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  visits[block * size + thread] += 1;
  order[block * size + thread] = atomicAdd(next, 1);
}

TEST(Emulator, RunsEveryThreadOnceInAScatteredOrder) {
  const dim3 grid(3, 4, 5), block(7, 3, 2);
  constexpr size_t kThreads = 3 * 4 * 5 * 7 * 3 * 2;
  const OnDevice<int> visits(std::vector<int>(kThreads, 0)), order(kThreads),
      next(std::vector<int>(1, 0));
  launch("note_indexes", note_indexes, grid, block, 0, nullptr, visits.data(), order.data(),
         next.data());
  EXPECT_EQ(visits.values(), std::vector<int>(kThreads, 1));
  std::vector<int> ran = order.values();
  EXPECT_FALSE(std::is_sorted(ran.begin(), ran.end()));
  std::sort(ran.begin(), ran.end());
  std::vector<int> all(kThreads);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ran, all);
}

/// Each thread takes its neighbour's value out of shared memory, many times over.
template <bool kWithBarriers>
__global__ void pass_around(int* out, int rounds) {
  int* const shared = shared_memory<int>();
  const auto threads = static_cast<int>(blockDim.x), t = static_cast<int>(threadIdx.x);
  shared[t] = t;
  for (int round = 0; round < rounds; ++round) {
    if (kWithBarriers) __syncthreads();
    const int taken = shared[(t + 1) % threads];
    __syncthreads();
    shared[t] = taken;
  }
  out[static_cast<int>(blockIdx.x) * threads + t] = shared[t];
}

TEST(Emulator, ShowsAMissingBarrier) {
  constexpr int kThreads = 160, kBlocks = 5, kRounds = 7;
  std::vector<int> expected(kThreads * kBlocks);
  for (int i = 0; i < kThreads * kBlocks; ++i)
    expected[static_cast<size_t>(i)] = (i + kRounds) % kThreads;
  const OnDevice<int> out(expected.size());
  launch("pass_around", pass_around<true>, dim3(kBlocks), dim3(kThreads), kThreads * sizeof(int),
         nullptr, out.data(), kRounds);
  EXPECT_EQ(out.values(), expected);
  launch("pass_around", pass_around<false>, dim3(kBlocks), dim3(kThreads), kThreads * sizeof(int),
         nullptr, out.data(), kRounds);
  EXPECT_NE(out.values(), expected);
}

__global__ void vote_in_block(int* out) {
  const auto t = static_cast<int>(threadIdx.x);
  int sum = __syncthreads_count(t % 3 == 0);
  sum += 1000 * __syncthreads_or(t == 77) + 2000 * __syncthreads_or(0);
  sum += 4000 * __syncthreads_and(1) + 8000 * __syncthreads_and(t != 5);
  out[t] = sum;
}
TEST(Emulator, VotesInTheBlock) {
  const OnDevice<int> out(96);
  launch("vote_in_block", vote_in_block, dim3(1), dim3(96), 0, nullptr, out.data());
  EXPECT_EQ(out.values(), std::vector<int>(96, 32 + 1000 + 4000));
}

__global__ void warp_functions(float* out) {
  const auto t = static_cast<int>(threadIdx.x);
  const auto x = static_cast<float>(t * t + 1);
  float* const row = out + t * 8;
  row[0] = __shfl_sync(cuda::kFullWarp, x, 3 * t + 1);
  row[1] = __shfl_xor_sync(cuda::kFullWarp, x, 5);
  row[2] = __shfl_down_sync(cuda::kFullWarp, x, 3);
  row[3] = __shfl_up_sync(cuda::kFullWarp, x, 3, 8);
  row[4] = static_cast<float>(__ballot_sync(cuda::kFullWarp, t % 32 < 20 && t % 2 == 1));
  row[5] = static_cast<float>(__any_sync(cuda::kFullWarp, t == 40) +
                              2 * __all_sync(cuda::kFullWarp, t < 32));
  row[6] = cuda::warp_sum(x);
  row[7] = cuda::warp_max(-x);
  __syncwarp();
}
TEST(Emulator, MovesValuesBetweenLanes) {
  constexpr int kThreads = 64;
  const OnDevice<float> out(kThreads * 8);
  launch("warp_functions", warp_functions, dim3(1), dim3(kThreads), 0, nullptr, out.data());
  const std::vector<float> got = out.values();
  const auto value = [](int t) { return static_cast<float>(t * t + 1); };
  for (int t = 0; t < kThreads; ++t) {
    const int warp = t / 32 * 32, lane = t % 32;
    const float* const row = got.data() + t * 8;
    EXPECT_EQ(row[0], value(warp + (3 * t + 1) % 32));
    EXPECT_EQ(row[1], value(warp + (lane ^ 5)));
    EXPECT_EQ(row[2], value(lane + 3 < 32 ? t + 3 : t));
    EXPECT_EQ(row[3], value(lane % 8 >= 3 ? t - 3 : t));
    EXPECT_EQ(row[4], static_cast<float>(0x000aaaaau));
    EXPECT_EQ(row[5], t < 32 ? 2.0f : 1.0f);
    float sum = 0;
    for (int l = 0; l < 32; ++l) sum += value(warp + l);
    EXPECT_EQ(row[6], sum);
    EXPECT_EQ(row[7], -value(warp));
  }
}

__global__ void read_shared(unsigned* out, bool write) {
  unsigned* const shared = shared_memory<unsigned>();
  out[blockIdx.x * blockDim.x + threadIdx.x] = shared[threadIdx.x];
  __syncthreads();
  if (write) shared[threadIdx.x] = 7;
}
TEST(Emulator, PoisonsSharedMemoryOfEveryBlock) {
  const OnDevice<unsigned> out(4 * 32);
  launch("read_shared", read_shared, dim3(4), dim3(32), 128, nullptr, out.data(), true);
  EXPECT_EQ(out.values(), std::vector<unsigned>(4 * 32, 0xffffffffu));
}

TEST(Emulator, RefusesLaunches) {
  const OnDevice<unsigned> out(1);
  const auto start = [&](dim3 grid, dim3 block, size_t shared) {
    launch("read_shared", read_shared, grid, block, shared, nullptr, out.data(), false);
  };
  EXPECT_THROW(start(dim3(1), dim3(1025), 128), InternalError);
  EXPECT_THROW(start(dim3(1), dim3(0), 128), InternalError);
  EXPECT_THROW(start(dim3(1), dim3(1, 1, 65), 128), InternalError);
  EXPECT_THROW(start(dim3(1, 65536), dim3(32), 128), InternalError);
  EXPECT_THROW(start(dim3(0x80000000u), dim3(32), 128), InternalError);
  EXPECT_THROW(start(dim3(1), dim3(32), 227 * 1024 + 1), InternalError);
  start(dim3(0), dim3(32), 128);  // no blocks: nothing is started
  EXPECT_EQ(pending_operations(), 0);
}

// Deaths. The kernels take a number so that the compiler sees no constant branch.

enum Fault {
  kReturnsBeforeBarrier,
  kTwoBarriers,
  kReturnsBeforeShuffle,
  kPartOfWarp,
  kWarpAgainstBarrier,
  kTwoWarpOperations,
  kPastSharedMemory,
  kBeforeSharedMemory,
  kFarPastSharedMemory,
  kUnfinishedCopies,
  kMisaligned,
  kMisalignedCopy,
  kMatrixRowOutside,
};
__global__ void misbehave(int fault, float* global) {
  float* const shared = shared_memory<float>();
  const auto t = static_cast<int>(threadIdx.x);
  switch (fault) {
    case kReturnsBeforeBarrier:
      if (t == 3) return;
      __syncthreads();
      break;
    case kTwoBarriers:
      if (t < 32)
        __syncthreads();
      else
        __syncthreads();
      break;
    case kReturnsBeforeShuffle:
      if (t % 32 == 7) return;
      __shfl_xor_sync(cuda::kFullWarp, 1.0f, 1);
      break;
    case kPartOfWarp:
      if (t % 32 < 16) __shfl_xor_sync(0xffffu, 1.0f, 1);
      break;
    case kWarpAgainstBarrier:
      if (t % 32 < 16)
        __syncwarp();
      else
        __syncthreads();
      break;
    case kTwoWarpOperations:
      if (t % 32 < 16)
        __shfl_xor_sync(cuda::kFullWarp, 1.0f, 1);
      else
        __shfl_down_sync(cuda::kFullWarp, 1.0f, 1);
      break;
    case kPastSharedMemory:
      if (t == 0) shared[65] = 1;
      break;
    case kBeforeSharedMemory:
      if (t == 0) shared[-1] = 1;
      break;
    case kFarPastSharedMemory: shared[4096 + t] = 1; break;
    case kUnfinishedCopies:
      if (t < 16) cuda::copy_async_16(shared + 4 * t, global + 4 * t, true);
      cuda::commit_copies();
      break;
    case kMisaligned: cuda::load_vector(global + 1); break;
    case kMisalignedCopy: cuda::copy_async_16(shared + 1, global, true); break;
    case kMatrixRowOutside: {
      uint32_t r[4];
      cuda::load_matrices(r, shared + 64);
      break;
    }
  }
}

using EmulatorDeathTest = testing::TestWithParam<std::pair<Fault, const char*>>;

TEST_P(EmulatorDeathTest, NamesTheFault) {
  const auto [fault, words] = GetParam();
  const OnDevice<float> global(1024);
  const auto run = [&, f = fault] {
    launch("misbehave", misbehave, dim3(2, 3), dim3(64), 260, nullptr, static_cast<int>(f),
           global.data());
    cudaDeviceSynchronize();
  };
  EXPECT_DEATH(run(),
               std::string("emulated device: kernel 'misbehave', block .*, thread.*") + words);
}
INSTANTIATE_TEST_SUITE_P(
    All, EmulatorDeathTest,
    testing::Values(
        std::pair(kReturnsBeforeBarrier,
                  "(returned while .* waits for it at the barrier|"
                  "waits at the barrier .*thread \\(3, 0, 0\\) has returned)"),
        std::pair(kTwoBarriers, "waits at the barrier .*block_test.cpp:.* waits at another"),
        std::pair(kReturnsBeforeShuffle,
                  "(returned while lanes of its warp wait for it at __shfl_xor_sync|"
                  "but lane 7 of the warp has returned)"),
        std::pair(kPartOfWarp, "__shfl_xor_sync .* with a mask that is not the full warp"),
        std::pair(kWarpAgainstBarrier, "no thread of the block can go on"),
        std::pair(kTwoWarpOperations, "comes to __shfl_.*_sync at .* of its warp waits at __shfl_"),
        std::pair(kPastSharedMemory, "wrote at byte 260 of 260 bytes of shared memory"),
        std::pair(kBeforeSharedMemory, "wrote at byte -4 of 260 bytes of shared memory"),
        std::pair(kFarPastSharedMemory, " touched .*: no allocation of the device"),
        std::pair(kUnfinishedCopies, "returned with 1 asynchronous copies under way"),
        std::pair(kMisaligned, "a vector of 16 bytes is moved at an address that is no multiple"),
        std::pair(kMisalignedCopy, "not 16-byte aligned"),
        std::pair(kMatrixRowOutside, "outside of the block's shared memory")));

}  // namespace
}  // namespace espalier::emulator
