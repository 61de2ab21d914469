// SPDX-License-Identifier: Apache-2.0
// The second pass of sums over rows: rows of partial sums, a few hundred at most, to one.
#pragma once

#include "cuda/primitives.cuh"

namespace espalier::cuda {

constexpr int kColumnSumWarps = 32;

/// target[j] += the sum over i of partials[i * width + j], j < size. Each of kColumnSumWarps runs
/// of consecutive i is summed in order, then the runs in order; so the result depends on `count`
/// alone. Columns from `split` on go to `upper` instead, counted from there.
static __global__ void __launch_bounds__(kColumnSumWarps* kWarp)
    column_sums_kernel(float* target, float* upper, int64_t split, const float* partials,
                       int64_t count, int64_t width, int64_t size) {
  float* shared = shared_memory<float>();  // [kColumnSumWarps, kWarp]
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t column = int64_t{blockIdx.x} * kWarp + lane;
  const int64_t run = (count + kColumnSumWarps - 1) / kColumnSumWarps;
  const int64_t first = warp * run, last = first + run < count ? first + run : count;
  float sum = 0;
  if (column < size) {
#pragma unroll 16
    for (int64_t i = first; i < last; ++i) sum += partials[i * width + column];
  }
  shared[warp * kWarp + lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= size) return;
  float total = 0;
  for (int w = 0; w < kColumnSumWarps; ++w) total += shared[w * kWarp + lane];
  float* to = column < split ? target + column : upper + (column - split);
  *to += total;
}

inline void add_column_sums(const char* label, float* target, float* upper, int64_t split,
                            const float* partials, int64_t count, int64_t width, int64_t size,
                            Stream stream) {
  constexpr int kThreads = kColumnSumWarps * kWarp;
  launch(label, column_sums_kernel, dim3(static_cast<unsigned>(blocks_for(size, kWarp))),
         dim3(kThreads), kThreads * sizeof(float), stream, target, upper, split, partials, count,
         width, size);
}

}  // namespace espalier::cuda
