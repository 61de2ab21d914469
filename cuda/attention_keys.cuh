// SPDX-License-Identifier: Apache-2.0
// What the kernels share whose blocks own a tile of keys and walk over the queries that see them:
// the query heads of the group in their order, of each its tiles of queries in theirs.
#pragma once

#include "cuda/attention_backward.cuh"

namespace espalier::cuda::attention {

/// One step: a tile of queries of one head. `greatest`: their greatest document start.
struct QueryTile {
  int head, tile, greatest;
};
/// The first tile from `tile` on with a query whose document begins at or before last_key.
template <int kQueries>
__device__ __forceinline__ bool find_tile(QueryTile& step, const StartRange* ranges, int tiles,
                                          int last_key) {
  constexpr int kRanges = kQueries / BackwardScratch::kRangeQueries;
  const int lane = thread_index_anew() % kWarp;
  for (; step.tile < tiles; step.tile += kWarp) {
    StartRange range = kNoStarts;
    if (step.tile + lane < tiles)
#pragma unroll
      for (int i = 0; i < kRanges; ++i) {
        const StartRange part = ranges[(step.tile + lane) * kRanges + i];
        range.least = part.least < range.least ? part.least : range.least;
        range.greatest = part.greatest > range.greatest ? part.greatest : range.greatest;
      }
    const unsigned found = __ballot_sync(kFullWarp, range.least <= last_key);
    if (found == 0) continue;
    const int which = __ffs(static_cast<int>(found)) - 1;
    step.greatest = __shfl_sync(kFullWarp, range.greatest, which);
    step.tile += which;
    return true;
  }
  return false;
}

/// Weights of queries that do not see a key become 0. Rows are keys key0 + 16 m + 8 half, columns
/// queries query0 + 8 n + i; starts: document starts of the sequence.
template <int kM, int kN>
__device__ __forceinline__ void mask_weights(float (&weights)[kM][kN][4], const int32_t* starts,
                                             int key0, int query0, int length) {
#pragma unroll
  for (int n = 0; n < kN; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = query0 + 8 * n + i;
      const int low = query < length ? starts[query] : INT32_MAX;
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = key0 + 16 * m + 8 * half;
          if (key < low || key > query) weights[m][n][2 * half + i] = 0.0f;
        }
    }
}

/// The step at `step` or after it, in the heads before end_head.
template <int kQueries>
__device__ __forceinline__ bool find_query_tile(QueryTile& step, const StartRange* ranges,
                                                int tiles, int first_tile, int end_head,
                                                int last_key) {
  for (; step.head < end_head; ++step.head, step.tile = first_tile)
    if (find_tile<kQueries>(step, ranges, tiles, last_key)) return true;
  return false;
}

/// Starts to copy q and d_out [2, kQueries, kDim] and log_sum and dots [2, kQueries] of a step.
template <int kQueries, int kDim, int kThreads, class T>
__device__ __forceinline__ void copy_query_tile(const AttentionBackward<T>& call,
                                                const BackwardScratch& scratch,
                                                const BlockWork& work, const QueryTile& step, T* to,
                                                float* columns, int thread) {
  const TileCopy<kQueries, kDim, kThreads> copy(thread);
  const int query = step.tile * kQueries, there = static_cast<int>(call.length) - query;
  const int64_t token = work.token + query;
  copy.start(to, call.q.data + token * call.q.stride + step.head * kDim, call.q.stride, there);
  copy.start(to + kQueries * kDim, call.d_out.data + token * call.d_out.stride + step.head * kDim,
             call.d_out.stride, there);
  if (thread < kQueries / 2) {
    const int which = thread / (kQueries / 4), part = thread % (kQueries / 4) * 4;
    const float* const from = which == 0 ? scratch.log_sum : scratch.dots;
    const int64_t row = work.sequence * call.heads + step.head;
    copy_async_16(columns + which * kQueries + part, from + row * scratch.padded + query + part,
                  true);
  }
  commit_copies();
}

}  // namespace espalier::cuda::attention
