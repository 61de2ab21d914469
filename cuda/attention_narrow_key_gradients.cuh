// SPDX-License-Identifier: Apache-2.0
// Backward attention, gradients of keys and values of narrow heads. As in
// attention_key_gradients.cuh, but a warp has registers for both sums of its 32 keys, so that
// nothing passes between warps and their only barrier is the one of the copies.
#pragma once

#include "cuda/attention_keys.cuh"

namespace espalier::cuda::attention {

template <int kDim>
struct NarrowKeyGradientShape {
  static constexpr int kM = 2, kWarps = 4, kQueries = 64;
  static constexpr int kPart = 32;   // queries at a time
  static constexpr int kBlocks = 2;  // a multiprocessor
  static constexpr int kKeys = 16 * kM * kWarps;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr size_t kSharedBytes =
      2 * (2 * kKeys + 4 * kQueries) * kDim + sizeof(float) * 4 * kQueries;
};

template <class T, int kDim>
__global__ void __launch_bounds__(NarrowKeyGradientShape<kDim>::kThreads,
                                  NarrowKeyGradientShape<kDim>::kBlocks)
    narrow_key_gradients_kernel(const AttentionBackward<T> call, const BackwardScratch scratch,
                                const BlockOrder order) {
  using Shape = NarrowKeyGradientShape<kDim>;
  constexpr int kM = Shape::kM, kKeys = Shape::kKeys, kQueries = Shape::kQueries;
  constexpr int kTile = kQueries * kDim, kN = Shape::kPart / 8;
  T* const keys = shared_memory<T>();
  T* const values = keys + kKeys * kDim;
  T* const stages = values + kKeys * kDim;                             // [2] of q, d_out
  auto* const columns = reinterpret_cast<float*>(stages + 4 * kTile);  // [2] of log_sum, dots

  const int length = static_cast<int>(call.length);
  const int kv_heads = static_cast<int>(call.kv_heads);
  const int group = static_cast<int>(call.heads) / kv_heads;
  const BlockWork work = work_of(order, static_cast<int>(blockIdx.x), kv_heads, length);
  const int first = work.rank * kKeys;  // the first tile is seen by most queries
  const int tiles = (length + kQueries - 1) / kQueries, first_tile = first / kQueries;
  const StartRange* const ranges =
      scratch.ranges +
      static_cast<int64_t>(work.sequence) * (scratch.padded / BackwardScratch::kRangeQueries);
  const auto start_copy = [&](const QueryTile& step, int stage, int thread) {
    copy_query_tile<kQueries, kDim, Shape::kThreads>(call, scratch, work, step, true,
                                                     stages + stage * 2 * kTile,
                                                     columns + 2 * stage * kQueries, thread);
  };

  {
    const TileCopy<kKeys, kDim, Shape::kThreads> copy(static_cast<int>(threadIdx.x));
    const int64_t token = work.token + first;
    copy.start(keys, call.k.data + token * call.k.stride + work.head * kDim, call.k.stride,
               length - first);
    copy.start(values, call.v.data + token * call.v.stride + work.head * kDim, call.v.stride,
               length - first);
  }
  const int head = work.head * group;
  QuerySteps<kQueries> steps(ranges, head, head + group, first_tile, tiles, first,
                             first + kKeys - 1);
  bool has_step = !steps.empty();
  QueryTile step = {};
  if (has_step) {
    step = steps.take();
    steps.look();
    start_copy(step, 0, static_cast<int>(threadIdx.x));
  }
  const float scale = call.scale * kLog2E;
  float key_sums[kM][kDim / 8][4] = {}, value_sums[kM][kDim / 8][4] = {};

#pragma unroll 1
  for (int stage = 0; has_step; stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this step's rows are there, and nobody reads those before any more
    const int me = thread_index_anew(), lane = me % kWarp, warp_row = me / kWarp * 16 * kM;
    const bool has_next = !steps.empty();
    QueryTile next = step;
    if (has_next) {
      next = steps.take();
      start_copy(next, stage ^ 1, me);
    }
    const LaneAddress<kDim> a_lane = rows_of_a<kDim>(lane), b_lane = columns_of_b<kDim>(lane);
#pragma unroll 1
    for (int part = 0; part < kQueries; part += Shape::kPart) {
      const int query0 = step.tile * kQueries + part, key0 = first + warp_row;
      if (query0 + Shape::kPart - 1 < key0) continue;  // all of them lie before the warp's keys
      const T* const q = stages + stage * 2 * kTile + part * kDim;
      const T* const d_out = q + kTile;
      const float* const column = columns + 2 * stage * kQueries + part + 2 * (lane % 4);
      float weights[kM][kN][4] = {}, gradients[kM][kN][4] = {};
      multiply_rows<kDim, kM, kN / 2>(weights, keys, warp_row, a_lane, q, b_lane);
      multiply_rows<kDim, kM, kN / 2>(gradients, values, warp_row, a_lane, d_out, b_lane);
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const float2 log_sum = *reinterpret_cast<const float2*>(column + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            weights[m][n][i] = exp2_approximate(
                fmaf(weights[m][n][i], scale, i % 2 == 0 ? -log_sum.x : -log_sum.y));
      }
      if (query0 < key0 + 16 * kM - 1 || step.cuts)
        mask_weights(weights, call.document_start + work.token, key0 + lane / 4,
                     query0 + 2 * (lane % 4), length);
      add_weighted_rows<kDim, kM, kN / 2>(value_sums, weights, d_out, a_lane);
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const float2 dot = *reinterpret_cast<const float2*>(column + kQueries + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            gradients[m][n][i] =
                weights[m][n][i] * (gradients[m][n][i] - (i % 2 == 0 ? dot.x : dot.y));
      }
      add_weighted_rows<kDim, kM, kN / 2>(key_sums, gradients, q, a_lane);
    }
    steps.look();
    step = next;
    has_step = has_next;
  }
  commit_copies();
  wait_for_copies<0>();  // where no query sees the keys, their own copies are still under way
  __syncthreads();

  const int me = thread_index_anew(), row0 = me / kWarp * 16 * kM;
  const int64_t token = work.token + first + row0;
  const int valid = length - first - row0, channel = work.head * kDim;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = 1.0f;
  store_rows<kDim, kM>(call.dv.data + token * call.dv.stride + channel, call.dv.stride, valid,
                       values + row0 * kDim, value_sums, factor, me % kWarp);
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = call.scale;
  store_rows<kDim, kM>(call.dk.data + token * call.dk.stride + channel, call.dk.stride, valid,
                       keys + row0 * kDim, key_sums, factor, me % kWarp);
}

}  // namespace espalier::cuda::attention
