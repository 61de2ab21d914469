// SPDX-License-Identifier: Apache-2.0
// A block a row. Which thread sums which columns follows from the column alone, not from where the
// row lies, so a row has the same bits at every stride.
// Source  Milakov, Gimelshein 2018, arXiv:1805.02867: maximum and sum in one pass
#include "cuda/classifier.hpp"

#include <cmath>

#include "core/error.hpp"
#include "cuda/runs.cuh"

namespace espalier::cuda {
namespace {

// Threads of a block. Two large ones a multiprocessor: their rows of 16-bit logits then fit in its
// L1 cache and are read once from memory. Small ones where a row is short or does not fit.
template <class T>
constexpr int kManyThreads = sizeof(T) == 2 ? 1024 : 512;
constexpr int kFewThreads = 256;
constexpr int64_t kLongRow = 1 << 14;
constexpr int blocks_at_once(int threads) {
  return threads == 1024 ? 2 : 1280 / threads;
}
constexpr float kLowest = -3.402823466e+38f;
constexpr float kLog2E = 1.4426950408889634f;
constexpr int kShardStatistics = 3, kLogTerms = 2;  // as layers/sharded_cross_entropy.hpp

/// e^x. 16-bit logits take the hardware's 2^x: its error is far below their rounding.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return exp2_approximate(x * kLog2E);
}

/// Greatest element so far and the sum of exp(scale (x - greatest)).
template <class T>
struct Running {
  float scale;
  float greatest = kLowest, sum = 0;

  template <int kCount>
  __device__ __forceinline__ void add(const float (&x)[kCount]) {
    float top = x[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i) top = x[i] > top ? x[i] : top;
    if (top > greatest) {
      sum *= exponential<T>((greatest - top) * scale);
      greatest = top;
    }
    float part = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) part += exponential<T>((x[i] - greatest) * scale);
    sum += part;
  }
};

/// x = from [a word of 16 bytes], wherever it begins.
template <class T>
__device__ __forceinline__ void load_anywhere(const T* from, float (&x)[Vector<T>::kSize]) {
  constexpr int kCount = Vector<T>::kSize;
  const auto address = reinterpret_cast<uintptr_t>(from);
  if (address % 16 == 0) {
    load_values<T, kCount>(from, x);
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = from[i];
  } else {
    // Pairs from the first even place on; at an odd one the outer two elements are left.
    const int first = address % 4 == 0 ? 0 : 1;
    const auto* pairs = reinterpret_cast<const uint32_t*>(from + first);
    float2 pair[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2 - 1; ++i) pair[i] = unpack2<T>(pairs[i]);
    if (first == 0) {
      pair[kCount / 2 - 1] = unpack2<T>(pairs[kCount / 2 - 1]);
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) {
        x[2 * i] = pair[i].x;
        x[2 * i + 1] = pair[i].y;
      }
    } else {
      x[0] = float(from[0]);
      x[kCount - 1] = float(from[kCount - 1]);
#pragma unroll
      for (int i = 0; i < kCount / 2 - 1; ++i) {
        x[2 * i + 1] = pair[i].x;
        x[2 * i + 2] = pair[i].y;
      }
    }
  }
}

/// Greatest logit of a row and the sum of exp(scale (z - greatest)), in every thread the same.
/// `shared`: 2 floats a warp.
template <int kThreads, class T>
__device__ __forceinline__ Running<T> row_statistics(const T* z, int64_t columns, float scale,
                                                     float* shared) {
  constexpr int kCount = Vector<T>::kSize, kWarps = kThreads / kWarp;
  const int64_t groups = columns / kCount;
  Running<T> mine{scale};
  int64_t g = threadIdx.x;
  for (; g + kThreads < groups; g += 2 * kThreads) {
    float x[2][kCount];
    load_anywhere(z + g * kCount, x[0]);
    load_anywhere(z + (g + kThreads) * kCount, x[1]);
    mine.add(x[0]);
    mine.add(x[1]);
  }
  if (g < groups) {
    float x[kCount];
    load_anywhere(z + g * kCount, x);
    mine.add(x);
  }
  const int64_t last = groups * kCount + threadIdx.x;
  if (last < columns) {
    const float x[1] = {float(z[last])};
    mine.add(x);
  }

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const bool speaks = threadIdx.x % kWarp == 0;
  const float top = warp_max(mine.greatest);
  if (speaks) shared[warp] = top;
  __syncthreads();
  Running<T> row{scale, shared[0], 0};
  for (int i = 1; i < kWarps; ++i) row.greatest = fmaxf(row.greatest, shared[i]);
  const float part = warp_sum(mine.sum * exponential<T>((mine.greatest - row.greatest) * scale));
  if (speaks) shared[kWarps + warp] = part;
  __syncthreads();
  for (int i = 0; i < kWarps; ++i) row.sum += shared[kWarps + i];
  return row;
}

/// What a row's gradient is made of: z' = exp(scale z - greatest) * factor.
struct Slope {
  float scale, greatest, factor;
};

template <class T, int kCount>
__device__ __forceinline__ void to_gradient(const Slope& slope, float (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    x[i] = exponential<T>(fmaf(x[i], slope.scale, -slope.greatest)) * slope.factor;
}

/// Every element of a row, from the end on: what was read last is still in the caches.
template <int kThreads, class T>
__device__ __forceinline__ void write_gradient(T* z, int64_t columns, const Slope& slope) {
  constexpr int kCount = Vector<T>::kSize;
  const Cut cut = cut_in_groups<kCount>(columns, z);
  int64_t g = cut.groups - 1 - threadIdx.x;
  for (; g >= kThreads; g -= 2 * kThreads) {
    T *const a = z + cut.head + g * kCount, *const b = a - kThreads * kCount;
    float x[2][kCount];
    load_values<T, kCount>(a, x[0]);
    load_values<T, kCount>(b, x[1]);
    to_gradient<T>(slope, x[0]);
    to_gradient<T>(slope, x[1]);
    store_values<T, kCount>(a, x[0]);
    store_values<T, kCount>(b, x[1]);
  }
  if (g >= 0) {
    T* const a = z + cut.head + g * kCount;
    float x[kCount];
    load_values<T, kCount>(a, x);
    to_gradient<T>(slope, x);
    store_values<T, kCount>(a, x);
  }
  for (int64_t i = cut.groups + threadIdx.x; i < cut.items(kCount); i += kThreads) {
    T* const a = z + cut.single(i, kCount);
    float x[1] = {float(*a)};
    to_gradient<T>(slope, x);
    *a = rounded<T>(x[0]);
  }
}

template <int kThreads, class T>
__device__ __forceinline__ void clear_row(T* z, int64_t columns) {
  constexpr int kCount = Vector<T>::kSize;
  const Cut cut = cut_in_groups<kCount>(columns, z);
  for (int64_t i = threadIdx.x; i < cut.items(kCount); i += kThreads) {
    if (i < cut.groups)
      *reinterpret_cast<uint4*>(z + cut.head + i * kCount) = make_uint4(0, 0, 0, 0);
    else
      z[cut.single(i, kCount)] = rounded<T>(0.0f);
  }
}

template <int kThreads, class T>
__global__ __launch_bounds__(kThreads, blocks_at_once(kThreads)) void cross_entropy_kernel(
    T* logits, const int32_t* targets, float* losses, int64_t columns, float scale,
    float gradient_scale, bool wants_gradient) {
  auto* const shared = shared_memory<float>();
  const int64_t t = blockIdx.x;
  T* const z = logits + t * columns;
  const int32_t target = targets[t];
  if (target < 0) {
    if (threadIdx.x == 0) losses[t] = 0;
    if (wants_gradient) clear_row<kThreads>(z, columns);
    return;
  }
  const float chosen = float(z[target]) * scale;  // before it is overwritten
  const Running<T> row = row_statistics<kThreads>(z, columns, scale, shared);
  const float greatest = row.greatest * scale;
  if (threadIdx.x == 0) losses[t] = greatest + logf(row.sum) - chosen;
  if (!wants_gradient) return;
  const float slope = gradient_scale * scale;
  write_gradient<kThreads>(z, columns, Slope{scale, greatest, slope / row.sum});
  __syncthreads();
  // p - 1 in fp32: from a rounded p near 1 nothing of it would be left.
  if (threadIdx.x == 0)
    z[target] = rounded<T>((exponential<T>(chosen - greatest) / row.sum - 1.0f) * slope);
}

template <int kThreads, class T>
__global__ __launch_bounds__(kThreads, blocks_at_once(kThreads)) void statistics_kernel(
    const T* logits, int64_t stride, int64_t columns, const int32_t* targets, int64_t first_column,
    float scale, float* statistics) {
  auto* const shared = shared_memory<float>();
  const int64_t t = blockIdx.x, target = int64_t{targets[t]} - first_column;
  const T* const z = logits + t * stride;
  float* const mine = statistics + t * kShardStatistics;
  if (targets[t] < 0 || columns == 0) {
    if (threadIdx.x == 0) {
      mine[0] = kLowest;
      mine[1] = mine[2] = 0;
    }
    return;
  }
  const Running<T> row = row_statistics<kThreads>(z, columns, scale, shared);
  if (threadIdx.x == 0) {
    mine[0] = row.greatest * scale;
    mine[1] = row.sum;
    mine[2] = target >= 0 && target < columns ? float(z[target]) * scale : 0.0f;
  }
}

constexpr int kCombineThreads = 128;
constexpr int kTreeLevels = 16;

/// A thread a row: the shards' sums in the fixed binary tree.
__global__ __launch_bounds__(kCombineThreads) void combine_kernel(float* losses, float* log_terms,
                                                                  const float* statistics,
                                                                  int64_t shards, int64_t rows,
                                                                  const int32_t* targets) {
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kCombineThreads + threadIdx.x;
  if (t >= rows) return;
  float* const terms = log_terms + t * kLogTerms;
  if (targets[t] < 0) {
    terms[0] = 0;
    terms[1] = 1;
    losses[t] = 0;
    return;
  }
  const float* const row = statistics + t * kShardStatistics;
  const int64_t step = rows * kShardStatistics;
  float greatest = kLowest, chosen = 0;
  for (int64_t s = 0; s < shards; ++s) {
    const float top = row[s * step];
    greatest = top > greatest ? top : greatest;
    chosen += row[s * step + 2];
  }
  // Sums of 1, 2, 4, ... shards wait until their neighbour is there.
  float waiting[kTreeLevels] = {};
  for (int64_t s = 0; s < shards; ++s) {
    float part = row[s * step + 1] * expf(row[s * step] - greatest);
    bool placed = false;
#pragma unroll
    for (int level = 0; level < kTreeLevels; ++level) {
      if (placed) continue;
      if ((s >> level & 1) != 0) {
        part = waiting[level] + part;
      } else {
        waiting[level] = part;
        placed = true;
      }
    }
  }
  float sum = 0;
  bool begun = false;
#pragma unroll
  for (int level = 0; level < kTreeLevels; ++level) {
    if ((shards >> level & 1) == 0) continue;
    sum = begun ? waiting[level] + sum : waiting[level];
    begun = true;
  }
  terms[0] = greatest;
  terms[1] = sum;
  losses[t] = greatest + logf(sum) - chosen;
}

template <int kThreads, class T>
__global__ __launch_bounds__(kThreads, blocks_at_once(kThreads)) void shard_gradient_kernel(
    T* logits, int64_t stride, int64_t columns, const int32_t* targets, int64_t first_column,
    float scale, float gradient_scale, const float* statistics, const float* log_terms) {
  const int64_t t = blockIdx.x, target = int64_t{targets[t]} - first_column;
  T* const z = logits + t * stride;
  if (targets[t] < 0) {
    clear_row<kThreads>(z, columns);
    return;
  }
  const float greatest = log_terms[t * kLogTerms], sum = log_terms[t * kLogTerms + 1];
  const float slope = gradient_scale * scale;
  write_gradient<kThreads>(z, columns, Slope{scale, greatest, slope / sum});
  __syncthreads();
  if (threadIdx.x != 0 || target < 0 || target >= columns) return;
  const float chosen = statistics[t * kShardStatistics + 2];
  z[target] = rounded<T>((exponential<T>(chosen - greatest) / sum - 1.0f) * slope);
}

/// Starts a block a row, of as many threads as the length of a row asks for: calls
/// start(grid, threads, shared bytes), where `threads` is a constant.
template <class T, class Start>
void for_each_row(int64_t rows, int64_t columns, const Start& start) {
  ESPALIER_REQUIRE(rows >= 0 && rows < int64_t{1} << 31, "a classifier over {} rows", rows);
  const dim3 grid(static_cast<unsigned>(rows));
  const auto with = [&](auto threads) {
    start(grid, threads, 2 * (threads / kWarp) * sizeof(float));
  };
  if (columns >= kLongRow)
    with(std::integral_constant<int, kManyThreads<T>>{});
  else
    with(std::integral_constant<int, kFewThreads>{});
}

}  // namespace

template <class T>
void cross_entropy(T* logits, const int32_t* targets, float* losses, int64_t rows, int64_t columns,
                   float logit_scale, float gradient_scale, bool wants_gradient, Stream stream) {
  for_each_row<T>(rows, columns, [&](dim3 grid, auto threads, size_t shared_bytes) {
    launch("cross_entropy", cross_entropy_kernel<threads(), T>, grid, dim3(threads), shared_bytes,
           stream, logits, targets, losses, columns, logit_scale, gradient_scale, wants_gradient);
  });
}

template <class T>
void shard_statistics(const T* logits, int64_t stride, int64_t rows, int64_t columns,
                      const int32_t* targets, int64_t first_column, float logit_scale,
                      float* statistics, Stream stream) {
  for_each_row<T>(rows, columns, [&](dim3 grid, auto threads, size_t shared_bytes) {
    launch("shard_statistics", statistics_kernel<threads(), T>, grid, dim3(threads), shared_bytes,
           stream, logits, stride, columns, targets, first_column, logit_scale, statistics);
  });
}

void combine_shards(float* losses, float* log_terms, const float* statistics, int64_t shards,
                    int64_t rows, const int32_t* targets, Stream stream) {
  ESPALIER_REQUIRE(shards > 0 && shards < int64_t{1} << kTreeLevels, "a loss over {} shards",
                   shards);
  const auto grid = dim3(static_cast<unsigned>(blocks_for(rows, kCombineThreads)));
  launch("combine_shards", combine_kernel, grid, dim3(kCombineThreads), 0, stream, losses,
         log_terms, statistics, shards, rows, targets);
}

template <class T>
void shard_gradient(T* logits, int64_t stride, int64_t rows, int64_t columns,
                    const int32_t* targets, int64_t first_column, float logit_scale,
                    float gradient_scale, const float* statistics, const float* log_terms,
                    Stream stream) {
  for_each_row<T>(rows, columns, [&](dim3 grid, auto threads, size_t) {
    launch("shard_gradient", shard_gradient_kernel<threads(), T>, grid, dim3(threads), 0, stream,
           logits, stride, columns, targets, first_column, logit_scale, gradient_scale, statistics,
           log_terms);
  });
}

#define ESPALIER_INSTANTIATE(T)                                                                    \
  template void cross_entropy<T>(T*, const int32_t*, float*, int64_t, int64_t, float, float, bool, \
                                 Stream);                                                          \
  template void shard_statistics<T>(const T*, int64_t, int64_t, int64_t, const int32_t*, int64_t,  \
                                    float, float*, Stream);                                        \
  template void shard_gradient<T>(T*, int64_t, int64_t, int64_t, const int32_t*, int64_t, float,   \
                                  float, const float*, const float*, Stream);
ESPALIER_INSTANTIATE(float)
ESPALIER_INSTANTIATE(bf16)
ESPALIER_INSTANTIATE(fp16)
#undef ESPALIER_INSTANTIATE

}  // namespace espalier::cuda
