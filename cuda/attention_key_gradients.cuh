// SPDX-License-Identifier: Apache-2.0
// Backward attention, gradients of keys and values. A block owns a tile of keys of one key head and
// walks over the query heads of its group and their tiles of queries. Scores are formed transposed,
// keys along the rows, so that weights and their gradients are A operands as they lie in registers.
//
// Two warps share 16 kM keys. Each takes half of the queries of a tile and forms the scores k q^T,
// the weights p, dp^T = v d_out^T and ds = p (dp - dot) of that half, so that every warp has
// exponentials to compute beside products. Then the first adds dv += p^T d_out and the second
// dk += ds^T q: each holds one sum of 16 kM keys, and hands to the other, rounded, what that one
// needs of its half. A warp sums its own half of the queries first, while the other's is under way.
#pragma once

#include "cuda/attention_keys.cuh"

namespace espalier::cuda::attention {

template <int kDim>
struct KeyGradientShape {
  static constexpr int kM = kDim == 256 ? 1 : 2;
  static constexpr int kWarps = kDim == 256 ? 8 : 4;
  static constexpr int kQueries = kDim == 256 ? 32 : 64;
  static constexpr int kBlocks = kDim == 256 ? 1 : 2;  // a multiprocessor
  static constexpr bool kHoldsKeys = kM == 1;          // their fragments, in registers
  static constexpr int kKeys = 16 * kM * kWarps / 2;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr size_t kSharedBytes =
      2 * (2 * kKeys + 4 * kQueries) * kDim + (2 * kKeys + 4 * sizeof(float)) * kQueries;
  // Of 228 KiB a multiprocessor, the device takes 1 KiB a block for itself.
  static_assert(kBlocks * (kSharedBytes + 1024) <= 228 * 1024, "the blocks must fit side by side");
};

template <class T, int kDim>
__global__ void __launch_bounds__(KeyGradientShape<kDim>::kThreads, KeyGradientShape<kDim>::kBlocks)
    key_gradients_kernel(const AttentionBackward<T> call, const BackwardScratch scratch,
                         const BlockOrder order) {
  using Shape = KeyGradientShape<kDim>;
  constexpr int kM = Shape::kM, kKeys = Shape::kKeys, kQueries = Shape::kQueries;
  constexpr int kHalf = kQueries / 2, kN = kHalf / 8;
  constexpr int kTile = kQueries * kDim, kFragments = kM * kN / 2 * kWarp;  // of a warp
  T* const keys = shared_memory<T>();
  T* const values = keys + kKeys * kDim;
  T* const stages = values + kKeys * kDim;                              // [2] of q, d_out
  auto* const exchange = reinterpret_cast<uint4*>(stages + 4 * kTile);  // [kWarps, kFragments]
  auto* const columns = reinterpret_cast<float*>(exchange + Shape::kWarps * kFragments);  // [2]

  const int length = static_cast<int>(call.length), heads = static_cast<int>(call.heads);
  const int kv_heads = static_cast<int>(call.kv_heads), group = heads / kv_heads;
  const BlockWork work = work_of(order, static_cast<int>(blockIdx.x), kv_heads, length);
  const int first = work.rank * kKeys;  // the first tile is seen by most queries
  const int tiles = (length + kQueries - 1) / kQueries, first_tile = first / kQueries;
  const StartRange* const ranges =
      scratch.ranges +
      static_cast<int64_t>(work.sequence) * (scratch.padded / BackwardScratch::kRangeQueries);

  const auto start_copy = [&](const QueryTile& step, bool there, int stage, int thread) {
    copy_query_tile<kQueries, kDim, Shape::kThreads>(call, scratch, work, step, there,
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
    start_copy(step, true, 0, static_cast<int>(threadIdx.x));
  }
  const float scale = call.scale * kLog2E;
  float sums[kM][kDim / 8][4] = {};
  ResidentRows<kDim, kM> held_keys;
  if (Shape::kHoldsKeys && has_step) {
    wait_for_copies<0>();
    __syncthreads();  // the keys are there
    const int me = thread_index_anew();
    held_keys.load(
        LeftRows<kDim, kM, T>(keys, me / kWarp / 2 * 16 * kM, rows_of_a<kDim>(me % kWarp)));
  }

#pragma unroll 1
  for (int stage = 0; has_step; stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this step's rows are there; nobody reads those before or the fragments
    const int me = thread_index_anew(), lane = me % kWarp;
    const int pair_row = me / kWarp / 2 * 16 * kM, half = me / kWarp % 2;
    const LaneAddress<kDim> a_lane = rows_of_a<kDim>(lane), b_lane = columns_of_b<kDim>(lane);
    const T* const q = stages + stage * 2 * kTile;
    const T* const d_out = q + kTile;
    const float* const column = columns + 2 * stage * kQueries + half * kHalf + 2 * (lane % 4);
    const bool has_next = !steps.empty();
    const QueryTile next = has_next ? steps.take() : step;

    float weights[kM][kN][4] = {}, gradients[kM][kN][4] = {};
    const T* const half_q = q + half * kHalf * kDim;
    const T* const half_d_out = d_out + half * kHalf * kDim;
    const LeftRows<kDim, kM, T> my_keys(keys, pair_row, a_lane);
    const LeftRows<kDim, kM, T> my_values(values, pair_row, a_lane);
    const auto copy_next = [&](int k) {
      if (k == 0) start_copy(next, has_next, stage ^ 1, me);
    };
    const auto form_weights = [&](int k) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        if (n * (kDim / 16) / kN != k) continue;
        const float2 log_sum = *reinterpret_cast<const float2*>(column + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            weights[m][n][i] = exp2_approximate(
                fmaf(weights[m][n][i], scale, i % 2 == 0 ? -log_sum.x : -log_sum.y));
      }
      if (k == kDim / 32 - 1) __syncwarp();  // or the compiler gathers exponentials at the end
    };
    if constexpr (Shape::kHoldsKeys)
      multiply_rows<kDim, kM, kN / 2>(weights, held_keys, half_q, b_lane, copy_next);
    else
      multiply_rows<kDim, kM, kN / 2>(weights, my_keys, half_q, b_lane, copy_next);
    multiply_rows<kDim, kM, kN / 2>(gradients, my_values, half_d_out, b_lane, form_weights);
    const int key0 = first + pair_row, query0 = step.tile * kQueries + half * kHalf;
    if (query0 < key0 + 16 * kM - 1 || step.cuts)
      mask_weights(weights, call.document_start + work.token, key0 + lane / 4,
                   query0 + 2 * (lane % 4), length);

    // What this warp sums itself stays, what its partner sums goes there.
    const T* const summed = half == 0 ? d_out : q;
    uint4* const fragments = exchange + me / kWarp * kFragments + lane;
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
      uint32_t own[kM][4], other[kM][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = 2 * k + i / 2, at = 2 * (i % 2);
        const float2 dot = *reinterpret_cast<const float2*>(column + kQueries + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m) {
          const float* const p = weights[m][n] + at;
          const float* const dp = gradients[m][n] + at;
          const uint32_t weight = pack2<T>(p[0], p[1]);
          const uint32_t gradient = pack2<T>(p[0] * (dp[0] - dot.x), p[1] * (dp[1] - dot.y));
          own[m][i] = half == 0 ? weight : gradient;
          other[m][i] = half == 0 ? gradient : weight;
        }
      }
#pragma unroll
      for (int m = 0; m < kM; ++m)
        fragments[(k * kM + m) * kWarp] =
            make_uint4(other[m][0], other[m][1], other[m][2], other[m][3]);
      add_rows<kDim, kM>(sums, own, summed + half * kHalf * kDim, 16 * k, a_lane);
    }
    steps.look();
    __syncthreads();  // the partner's fragments are there
#pragma unroll
    for (int k = 0; k < kN / 2; ++k) {
      uint32_t left[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const uint4 from = exchange[(me / kWarp ^ 1) * kFragments + lane + (k * kM + m) * kWarp];
        left[m][0] = from.x;
        left[m][1] = from.y;
        left[m][2] = from.z;
        left[m][3] = from.w;
      }
      add_rows<kDim, kM>(sums, left, summed + (1 - half) * kHalf * kDim, 16 * k, a_lane);
    }
    step = next;
    has_step = has_next;
  }
  commit_copies();
  wait_for_copies<0>();  // where no query sees the keys, their own copies are still under way
  __syncthreads();

  const int me = thread_index_anew(), row0 = me / kWarp / 2 * 16 * kM;
  const bool adds_values = me / kWarp % 2 == 0;
  const AttentionRows<T> to = adds_values ? call.dv : call.dk;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = adds_values ? 1.0f : call.scale;
  store_rows<kDim, kM>(to.data + (work.token + first + row0) * to.stride + work.head * kDim,
                       to.stride, length - first - row0,
                       (adds_values ? keys : values) + row0 * kDim, sums, factor, me % kWarp);
}

}  // namespace espalier::cuda::attention
