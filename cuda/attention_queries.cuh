// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share whose blocks own a tile of queries and walk over keys: the
// forward pass and the gradient of the queries.
#pragma once

#include "cuda/attention_tiles.cuh"

namespace espalier::cuda::attention {

/// What a block that owns queries keeps in shared memory rather than in registers.
template <class T, int kRows>
struct QueryPlan {
  const T *keys, *values;  // of the sequence and head
  StartRange ranges[kRows / 16];
  int32_t starts[kRows];  // document starts of the queries
};

/// Document starts of the block's queries into the plan; their range. Ends with a barrier.
template <int kRows, int kWarps, class T>
__device__ __forceinline__ StartRange read_starts(QueryPlan<T, kRows>* plan, const int32_t* from,
                                                  int valid, int thread) {
  StartRange range = kNoStarts;
  if (thread < kRows) {
    const int32_t start = thread < valid ? from[thread] : 0;
    plan->starts[thread] = start;
    if (thread < valid) range = {start, start};
  }
  range = warp_range(range);
  if (thread % kWarp == 0) plan->ranges[thread / kWarp] = range;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const StartRange other = plan->ranges[w];
    range.least = other.least < range.least ? other.least : range.least;
    range.greatest = other.greatest > range.greatest ? other.greatest : range.greatest;
  }
  return range;
}

/// Scores of keys that a query does not see become -inf. Queries at rows row0 + 8 i of the block,
/// whose document starts are `starts`; key0: position of column 0 relative to the block's row 0.
template <int kM, int kN>
__device__ __forceinline__ void mask_scores(float (&scores)[kM][kN][4], const int32_t* starts,
                                            int row0, int first_query, int first_key) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + 16 * m + 8 * half;
      const int low = starts[row] - first_key, high = first_query + row - first_key;
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = 8 * n + i;
          if (key < low || key > high) scores[m][n][2 * half + i] = -kInfinity;
        }
    }
}

}  // namespace espalier::cuda::attention
