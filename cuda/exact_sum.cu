// SPDX-License-Identifier: Apache-2.0
// Doubles added to the digits of an ExactSum. Each thread has digits of its own in shared memory,
// since atomics of a whole block on the few digits in use would wait for each other; what a block
// has is added by one atomic a digit.
#include "core/error.hpp"
#include "cuda/optimizer.hpp"
#include "cuda/primitives.cuh"

namespace espalier::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kWords = static_cast<int>(ExactSum::kWords);
constexpr int kCount = static_cast<int>(ExactSum::kNotFinite);
constexpr int kAhead = 8;  // values that are read before the first is added
constexpr size_t kShared = size_t{kWords} * kThreads * sizeof(uint64_t);
constexpr int64_t kPart = kAhead * kThreads;  // values that are worth a block
constexpr int64_t kMostBlocks = 1 << 8;       // few: all add to the same addresses in the end

/// Modulo 2^64, as two's complement wants it.
__device__ __forceinline__ void add_word(uint64_t* to, uint64_t word) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(word));
}

/// Adds x to a thread's digits; false, and it is counted, where it is not finite.
__device__ __forceinline__ bool add(uint64_t* own, double x) {
  const ExactDigits d = exact_digits(x);
  if (!d.is_finite) {
    ++own[kCount * kThreads];
    return false;
  }
  uint64_t* const first = own + d.first * kThreads;
#pragma unroll
  for (int k = 0; k < 3; ++k) first[k * kThreads] += static_cast<uint64_t>(d.digit[k]);
  return true;
}

__global__ __launch_bounds__(kThreads) void exact_sum_kernel(uint64_t* words, const double* values,
                                                             int64_t count) {
  auto* const digits = shared_memory<uint64_t>();  // [kWords, kThreads]
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp;
  uint64_t* const own = digits + thread;
  for (int w = 0; w < kWords; ++w) own[w * kThreads] = 0;

  int64_t rest = 0;  // behind the first that is not finite, that one included
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t at = int64_t{blockIdx.x} * kThreads + thread; at < count; at += kAhead * step) {
    double x[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) x[k] = at + k * step < count ? values[at + k * step] : 0.0;
#pragma unroll
    for (int k = 0; k < kAhead; ++k)
      if (!add(own, x[k]) && rest == 0) rest = count - (at + k * step);
  }
  if (rest > 0)
    atomicMax(reinterpret_cast<unsigned long long*>(words + kWords),
              static_cast<unsigned long long>(rest));

  __syncthreads();
  for (int w = thread / kWarp; w < kWords; w += kWarps) {
    uint64_t sum = 0;
#pragma unroll
    for (int k = 0; k < kWarps; ++k) sum += digits[w * kThreads + k * kWarp + lane];
    if (__any_sync(kFullWarp, sum != 0) == 0) continue;
    sum = warp_sum(sum);
    if (lane == 0) add_word(words + w, sum);
  }
}

}  // namespace

void exact_sum(uint64_t* words, const double* values, int64_t count, Stream stream) {
  ESPALIER_REQUIRE(count <= ExactSum::kMostPending, "an exact sum of {} values at once", count);
  const int64_t parts = blocks_for(count, kPart);
  const auto blocks = static_cast<unsigned>(parts < kMostBlocks ? parts : kMostBlocks);
  launch("exact_sum", exact_sum_kernel, dim3(blocks), dim3(kThreads), kShared, stream, words,
         values, count);
}

}  // namespace espalier::cuda
