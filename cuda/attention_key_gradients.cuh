// SPDX-License-Identifier: Apache-2.0
// Backward attention, gradients of keys and values. A block owns a tile of keys of one key head and
// walks over the query heads of its group and their tiles of queries. Scores are formed transposed,
// keys along the rows, so that weights and their gradients are A operands as they lie in registers.
//
// Two warps share 16 kM keys: the first forms the scores k q^T, the weights p and dv += p^T d_out;
// the second dp^T = v d_out^T, ds = p (dp - dot) and dk += ds^T q. So each holds one sum of kM * 16
// keys, and every fragment of q and d_out serves kM products; only p goes through shared memory.
#pragma once

#include "cuda/attention_keys.cuh"

namespace espalier::cuda::attention {

template <int kDim>
struct KeyGradientShape {
  static constexpr int kM = kDim == 256 ? 1 : 2;
  static constexpr int kWarps = kDim == 256 ? 8 : 4;
  static constexpr int kQueries = kDim == 256 ? 32 : 64;
  static constexpr int kBlocks = kDim == 256 ? 1 : 2;  // a multiprocessor
  static constexpr int kKeys = 16 * kM * kWarps / 2;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr size_t kSharedBytes =
      2 * (2 * kKeys + 4 * kQueries) * kDim + sizeof(float) * (kKeys + 4) * kQueries;
  // Of 228 KiB a multiprocessor, the device takes 1 KiB a block for itself.
  static_assert(kBlocks * (kSharedBytes + 1024) <= 228 * 1024, "the blocks must fit side by side");
};

template <class T, int kDim>
__global__ void __launch_bounds__(KeyGradientShape<kDim>::kThreads, KeyGradientShape<kDim>::kBlocks)
    key_gradients_kernel(const AttentionBackward<T> call, const BackwardScratch scratch,
                         const BlockOrder order) {
  using Shape = KeyGradientShape<kDim>;
  constexpr int kM = Shape::kM, kKeys = Shape::kKeys, kQueries = Shape::kQueries;
  constexpr int kTile = kQueries * kDim, kN = kQueries / 8;
  T* const keys = shared_memory<T>();
  T* const values = keys + kKeys * kDim;
  T* const stages = values + kKeys * kDim;                              // [2] of q, d_out
  auto* const weights = reinterpret_cast<float4*>(stages + 4 * kTile);  // [kWarps / 2, kM, kN, 32]
  auto* const columns =
      reinterpret_cast<float*>(weights + kKeys * kQueries / 4);  // [2]: log_sum, dot

  const int length = static_cast<int>(call.length), heads = static_cast<int>(call.heads);
  const int kv_heads = static_cast<int>(call.kv_heads), group = heads / kv_heads;
  const BlockWork work = work_of(order, static_cast<int>(blockIdx.x), kv_heads, length);
  const int first = work.rank * kKeys;  // the first tile is seen by most queries
  const int tiles = (length + kQueries - 1) / kQueries, first_tile = first / kQueries;
  const StartRange* const ranges =
      scratch.ranges +
      static_cast<int64_t>(work.sequence) * (scratch.padded / BackwardScratch::kRangeQueries);

  const auto copy_step = [&](const QueryTile& step, int stage, int thread) {
    copy_query_tile<kQueries, kDim, Shape::kThreads>(call, scratch, work, step,
                                                     stages + stage * 2 * kTile,
                                                     columns + 2 * stage * kQueries, thread);
  };
  const auto find_step = [&](QueryTile& step) {
    return find_query_tile<kQueries>(step, ranges, tiles, first_tile, work.head * group + group,
                                     first + kKeys - 1);
  };

  {
    const TileCopy<kKeys, kDim, Shape::kThreads> copy(static_cast<int>(threadIdx.x));
    const int64_t token = work.token + first;
    copy.start(keys, call.k.data + token * call.k.stride + work.head * kDim, call.k.stride,
               length - first);
    copy.start(values, call.v.data + token * call.v.stride + work.head * kDim, call.v.stride,
               length - first);
  }
  QueryTile next = {work.head * group, first_tile, 0};
  bool has_next = find_step(next);
  if (has_next) copy_step(next, 0, static_cast<int>(threadIdx.x));
  const float scale = call.scale * kLog2E;
  float sums[kM][kDim / 8][4] = {};

#pragma unroll 1
  for (int stage = 0; has_next; stage ^= 1) {
    const QueryTile step = next;
    wait_for_copies<0>();
    __syncthreads();  // this step's rows are there; nobody reads those before or the weights
    const int me = thread_index_anew(), lane = me % kWarp, pair = me / kWarp / 2;
    const bool forms_weights = me / kWarp % 2 == 0;
    ++next.tile;
    has_next = find_step(next);
    if (has_next) copy_step(next, stage ^ 1, me);
    const LaneAddress<kDim> a_lane = rows_of_a<kDim>(lane), b_lane = columns_of_b<kDim>(lane);
    const T* const q = stages + stage * 2 * kTile;
    const T* const d_out = q + kTile;
    const float* const column = columns + 2 * stage * kQueries + 2 * (lane % 4);
    float4* const exchange = weights + pair * kM * kN * kWarp + lane;
    float scores[kM][kN][4] = {};
    multiply_rows<kDim, kM, kN / 2>(scores, forms_weights ? keys : values, pair * 16 * kM, a_lane,
                                    forms_weights ? q : d_out, b_lane);
    if (forms_weights) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const float2 log_sum = *reinterpret_cast<const float2*>(column + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            scores[m][n][i] = exp2_approximate(
                fmaf(scores[m][n][i], scale, i % 2 == 0 ? -log_sum.x : -log_sum.y));
      }
      if (step.tile * kQueries < first + kKeys - 1 || step.greatest > first)
        mask_weights(scores, call.document_start + work.token, first + pair * 16 * kM + lane / 4,
                     step.tile * kQueries + 2 * (lane % 4), length);
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int n = 0; n < kN; ++n)
          exchange[(m * kN + n) * kWarp] =
              make_float4(scores[m][n][0], scores[m][n][1], scores[m][n][2], scores[m][n][3]);
    } else {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        const float2 dot = *reinterpret_cast<const float2*>(column + kQueries + 8 * n);
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int i = 0; i < 4; ++i) scores[m][n][i] -= i % 2 == 0 ? dot.x : dot.y;
      }
    }
    __syncthreads();  // the weights are there
    if (!forms_weights) {
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int n = 0; n < kN; ++n) {
          const float4 p = exchange[(m * kN + n) * kWarp];
          scores[m][n][0] *= p.x;
          scores[m][n][1] *= p.y;
          scores[m][n][2] *= p.z;
          scores[m][n][3] *= p.w;
        }
    }
    add_weighted_rows<kDim, kM, kN / 2>(sums, scores, forms_weights ? d_out : q, a_lane);
  }
  commit_copies();
  wait_for_copies<0>();  // where no query sees the keys, their own copies are still under way
  __syncthreads();

  const int me = thread_index_anew(), row0 = me / kWarp / 2 * 16 * kM;
  const bool forms_weights = me / kWarp % 2 == 0;
  const AttentionRows<T> to = forms_weights ? call.dv : call.dk;
  float factor[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m) factor[m][0] = factor[m][1] = forms_weights ? 1.0f : call.scale;
  store_rows<kDim, kM>(to.data + (work.token + first + row0) * to.stride + work.head * kDim,
                       to.stride, length - first - row0,
                       (forms_weights ? keys : values) + row0 * kDim, sums, factor, me % kWarp);
}

}  // namespace espalier::cuda::attention
